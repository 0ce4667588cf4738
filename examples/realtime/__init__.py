"""A support agent that is talked to in a browser; its refunds wait for a person: `python -m examples.realtime`."""
