"""A run in this process: its log, its writer, its lease, and what its frames run under. Nothing here acts."""
