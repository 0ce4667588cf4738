"""How a Python callable becomes a tool: its signature, its schema, its arguments, its thread."""
