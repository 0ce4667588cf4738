"""Who decided what, when, on which bytes: read from the logs, searched, and written in other people's formats."""
