"""The demo as it is in earnest: a server, a worker, a journal, two people, and agents that keep asking them."""
