"""The pure core: a run is a log, and everything else is a way of reading it. No I/O, no clock, no await."""
