"""Run the command line as `python -m keyturn`, where the script of that name is not on the path."""

from __future__ import annotations

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
