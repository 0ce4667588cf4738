"""Handles on a run: what users hold, decide on, save and load again."""
