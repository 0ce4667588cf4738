"""The OpenAI Agents SDK: its saved states, replayed as runs of ours, and the names that it has and Keyturn does not."""
