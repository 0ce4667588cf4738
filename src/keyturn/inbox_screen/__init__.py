"""The inbox in the terminal: what waits, the request whole, and the letters that decide it."""
