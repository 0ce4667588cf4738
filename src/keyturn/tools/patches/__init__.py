"""Parses and applies patches: notations of diffs, hunks, and the editor of a workspace."""
