"""Sessions: where conversations live between runs. `base.py` is the seam, one file is one member."""
