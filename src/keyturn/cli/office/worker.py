"""The demo's worker: `keyturn worker` on the demo's app, which ends when whoever started it is gone."""

from __future__ import annotations

import os
import signal
import sys
import threading

from ..main import main

APP = "keyturn.cli.office.app:app"


def _end_with_the_demo() -> None:
    """Wait until the other end of our input is closed, which it is by whatever way that process ends."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    sys.exit(main(["worker", APP]))
