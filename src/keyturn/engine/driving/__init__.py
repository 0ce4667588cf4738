"""What moves a run in this process: the writer of its log, its lease, and the drive that loop and effects share."""
