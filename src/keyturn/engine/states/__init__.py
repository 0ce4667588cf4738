"""The handles on a run, which users hold, decide on, save and load again."""
