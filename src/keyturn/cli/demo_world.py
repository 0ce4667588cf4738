"""The demo's world: a JSON file, so that what a tool does is real, can be looked at, and outlives a process.

Nothing here knows of agents or approvals.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

AT_FIRST: dict[str, Any] = {
    "services": {
        "api": {"status": "running", "key": "key-4f21 (leaked)", "restarts": 0},
        "worker": {"status": "running", "key": "key-90ab", "restarts": 0},
    },
    "backups": ["api-2026-03-01", "api-2026-07-01", "api-2026-11-01", "api-2026-11-20"],
    "notices": [],
    "effects": [],
}


_CHANGING = threading.Lock()


class World:
    """What the demo's tools look at and change.

    >>> import tempfile
    >>> world = World(Path(tempfile.mkdtemp()) / "world.json")
    >>> world.change("add a notice", lambda data: data["notices"].append("hello"))
    >>> world.read()["notices"]
    ['hello']
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any]:
        """The world as it is; before anything happened, as it was at first."""
        made: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else AT_FIRST
        return made

    def text(self) -> str:
        """The world as a text to read."""
        return json.dumps(self.read(), indent=2) + "\n"

    def change(self, effect: str, how: Callable[[dict[str, Any]], object]) -> None:
        """Change the world, and note which process did it."""
        with _CHANGING:  # calls that were approved together run together, and these tools run in threads
            data = json.loads(json.dumps(self.read()))
            how(data)
            data["effects"].append(f"{effect}, by process {os.getpid()}")
            draft = self.path.with_suffix(".draft")
            draft.write_text(json.dumps(data, indent=2) + "\n")
            os.replace(draft, self.path)
