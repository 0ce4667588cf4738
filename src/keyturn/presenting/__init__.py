"""What people are shown of requests, runs and decisions, in words: the same for pages, terminal, chat and channels."""
