"""Where a command works: at a journal, or at a server; commands ask a `Seat`, and do not know which it is."""
