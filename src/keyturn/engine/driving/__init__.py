"""The parts that drive a run in this process: the writer of its log, its lease, its drive, its usage limits."""
