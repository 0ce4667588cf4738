"""How much memory this process holds now (not its peak: a peak is inherited across exec)."""

import os
import subprocess
from pathlib import Path

STATM = Path("/proc/self/statm")


def rss_bytes() -> int:
    """The resident set of this process."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(os.getpid())])) * 1024
