"""The shared suites: what every member of a room promises, whoever wrote it."""
