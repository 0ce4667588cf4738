"""Policies: what is said of a call before anybody is asked. `base.py` is the seam, one file is one member."""
