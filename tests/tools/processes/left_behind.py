"""What commands left behind on this machine, for tests of whatever runs commands. No test is here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LINUX = sys.platform.startswith("linux")


def alive(marker: str) -> list[str]:
    """The processes of this machine whose command line holds a marker."""
    if not LINUX:
        found = subprocess.run(["ps", "axo", "command"], capture_output=True, text=True, check=True).stdout.splitlines()
        return [line for line in found if marker in line]
    lines: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                lines.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return [line for line in lines if marker in line]
