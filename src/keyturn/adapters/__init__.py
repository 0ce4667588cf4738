"""Other frameworks: the states that they save, the names that only they have, and what rewrites their programs."""
