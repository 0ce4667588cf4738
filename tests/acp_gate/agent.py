"""A coding agent that speaks ACP, as the test wants it: it says each line of a file, and writes what it is told."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Say the lines, then keep what comes until the editor hangs up."""
    says, heard = map(Path, sys.argv[1:3])
    sys.stdout.write(says.read_text(encoding="utf-8"))
    sys.stdout.flush()
    with heard.open("a", encoding="utf-8") as file:
        for line in sys.stdin:
            file.write(line)
            file.flush()


if __name__ == "__main__":
    main()
