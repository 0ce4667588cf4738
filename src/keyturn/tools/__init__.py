"""The tools: what an agent may do; `base.py` is the seam, one file is one kind."""
