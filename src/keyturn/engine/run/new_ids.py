"""Make names that cannot be guessed, and the name under which this process claims a run."""

from __future__ import annotations

import os
import secrets
import socket


def new_id() -> str:
    """Make an id that cannot be guessed."""
    return secrets.token_hex(16)


def claimant(kind: str) -> str:
    """Make the name under which this process claims a run: people look by it for the machine and the process."""
    return f"{kind}-{_this_process()}-{new_id()[:8]}"


def _this_process() -> str:
    return f"{os.getpid()}@{socket.gethostname()}"
