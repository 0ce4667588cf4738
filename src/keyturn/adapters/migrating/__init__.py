"""What `keyturn migrate` does with programs of the OpenAI Agents SDK: find them, rewrite imports, say what differs."""
