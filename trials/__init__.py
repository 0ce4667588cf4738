"""Trials: the promises put to the test at length, each by one command that prints what it tried and what it found.

A trial kills, races or alters the real code and counts violations. Nothing here is part of the package.
"""
