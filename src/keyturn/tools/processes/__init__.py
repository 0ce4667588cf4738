"""Runs commands on this machine: supervised processes, bounded output, the sandbox."""
