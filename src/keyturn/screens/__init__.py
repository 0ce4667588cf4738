"""What the screens in the terminal share: rows of text, dialogs, and a call that waits with the keys that decide it."""
