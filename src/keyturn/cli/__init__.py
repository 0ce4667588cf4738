"""The terminal: one command a row, each imported when it is asked for. What a command does belongs to the engine."""
