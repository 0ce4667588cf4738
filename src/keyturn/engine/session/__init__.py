"""Synchronise a run with its session: read the history, write what the run adds."""
