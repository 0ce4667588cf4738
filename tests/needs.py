"""What tests need of the machine, and how it is said that something was missing. No test is here.

A test whose program is missing is skipped with `missing(...)`; the end of a run of the tests says, in one line for each
reason, how many were skipped. What Debian's packages are called stands once, here; the Makefile installs them by the
same names, except those that would start a service for one test (nginx, caddy, pgbouncer).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

#: A program, and the package of Debian that has it.
PACKAGES = {
    "PostgreSQL": "postgresql",
    "bwrap": "bubblewrap",
    "git": "git",
    "bash": "bash",
    "ssh-keygen": "openssh-client",
    "openssl": "openssl",
    "chromium": "chromium-headless-shell",
    "notifications": "chromium",
    "nginx": "nginx",
    "caddy": "caddy",
    "systemd-analyze": "systemd",
    "pgbouncer": "pgbouncer",
}


def missing(program: str) -> str:
    """Say why a test is skipped that needs a program.

    >>> missing("bwrap")
    'needs bwrap (Debian: bubblewrap)'
    """
    return f"needs {program} (Debian: {PACKAGES[program]})"


def counted(reasons: Iterable[str]) -> list[str]:
    """Say of each reason how many tests were skipped for it.

    >>> counted([missing("bwrap"), missing("bwrap"), "not held on this store"])
    ['Skipped: 2 tests need bwrap (Debian: bubblewrap)', 'Skipped: 1 test: not held on this store']
    """
    return [_line(count, reason) for reason, count in Counter(map(_in_short, reasons)).most_common()]


def _in_short(reason: str) -> str:
    reason = re.sub(r"^Skipped: ", "", reason)
    return missing("PostgreSQL") if "PostgreSQL" in reason else reason


def _line(count: int, reason: str) -> str:
    tests, need = ("test", "needs") if count == 1 else ("tests", "need")
    words = reason.removeprefix("needs ")
    return f"Skipped: {count} {tests}: {reason}" if words == reason else f"Skipped: {count} {tests} {need} {words}"
