"""The command line: one file a command, each imported when it is used; what a command does belongs to the engine."""
