"""Requests of programs that are not written with Keyturn: they ask, claim once what was approved, and run it."""
