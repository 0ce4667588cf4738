"""The shared suites, which test what every member of a room promises, whoever wrote it."""
