"""The gate: what lets a call run, for every kind of tool at every depth and from every door."""
