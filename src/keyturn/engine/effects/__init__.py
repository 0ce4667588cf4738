"""What the loop does: ask a model, screen a call, run a tool, settle what will not run. One effect, one file."""
