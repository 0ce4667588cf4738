"""Hooks of coding agents: a call of theirs waits for a decision in the inbox, and without one it does not run.

Imported by a program that starts for each call: nothing here imports the engine.
"""
