"""Serve the page: `python -m examples.realtime`, and open the address that it prints."""

from .app import main

if __name__ == "__main__":
    main()
