"""Servers on 127.0.0.1 that speak a provider's wire format: `server.py` is HTTP and script, each other file a format.

They need no package and no network. What they say is checked against the official SDKs' own types by the tests.
"""
