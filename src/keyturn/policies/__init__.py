"""The policies, which judge a call before anybody is asked: `base.py` is the seam, one file is one member.

Members are named where they live: `rules.Policy` with `allow`, `ask` and `deny`, `limits` with what a rule may
count, and `grants.Grant`.
"""
