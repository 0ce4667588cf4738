"""An app: agents, a journal and settings together, with its lifespan and handles of its runs."""
