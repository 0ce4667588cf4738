"""The sessions: stores of conversations between runs; `base.py` is the seam, one file is one member."""
