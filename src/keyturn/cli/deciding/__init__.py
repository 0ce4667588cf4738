"""Deciding from the command line: a request drawn, what somebody says of it, and their signature."""
