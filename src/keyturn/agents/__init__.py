"""Agents: what a user declares. Objects, not data; a log names them by their path."""
