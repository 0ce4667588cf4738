"""The effects, which the loop performs: ask a model, screen a call, run a tool, settle; one effect, one file."""
