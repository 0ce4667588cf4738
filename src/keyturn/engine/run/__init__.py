"""A run in this process: its log, its agents, its clock, and what its frames run under. Nothing here acts."""
