"""The pure core: a run is a log, and `decide`, `evolve` and `pending` read it, without I/O, clock or await."""
