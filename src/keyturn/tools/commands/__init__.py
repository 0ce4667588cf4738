"""Reading shell commands: words, programs, and what runs other programs. Nothing here is run."""
