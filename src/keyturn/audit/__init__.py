"""The audit: whether a journal kept the promises, judged by code that shares nothing with the code that decides."""
