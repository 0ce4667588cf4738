"""The inbox, where people decide: requests of a journal, listed and settled."""
