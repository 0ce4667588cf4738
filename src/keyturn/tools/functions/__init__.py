"""Turns a Python callable into a tool: its signature, its schema, its arguments, its thread."""
