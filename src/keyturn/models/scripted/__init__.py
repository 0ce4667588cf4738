"""The scripted model for tests, and the items and steps of its script."""
