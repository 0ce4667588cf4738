"""Policies: what is said of a call before anybody is asked. `base.py` is the seam, one file is one member.

Members are named where they live: `rules.Policy` with `allow`, `ask` and `deny`, and `grants.Grant`.
"""
