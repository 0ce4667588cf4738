"""One run in this process: its log, its agents, its clock, its frame settings; nothing here acts."""
