"""A run and the session it belongs to: what is taken from it, and what is written back."""
