"""Parses shell commands: words, programs, and what runs other programs; nothing here is run."""
