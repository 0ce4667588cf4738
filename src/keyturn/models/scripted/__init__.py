"""The model that says what a test tells it to, and the words of a script."""
