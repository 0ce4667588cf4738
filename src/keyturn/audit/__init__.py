"""Check whether a journal kept the promises, by code that shares only the fold and predicates with what decides."""
