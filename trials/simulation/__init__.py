"""The seeded simulator: the real core and engine in a made world, where one integer decides all that happens."""
