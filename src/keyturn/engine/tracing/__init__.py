"""Trace a run as spans: a listener to the loop, which decides nothing and never stops a run."""
