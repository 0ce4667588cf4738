"""Other frameworks: the states that they save, and the names that only they have; an adapter is imported by name."""
