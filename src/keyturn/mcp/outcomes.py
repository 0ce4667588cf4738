"""What became of a request that has no result: refused, never sent, lost, or questions. These never leave this room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class InputRequired:
    """What people must answer first, by key, and what the server wants to be reminded of then."""

    requests: dict[str, Any]
    state: str | None


class CallRefused(Exception):
    """The server answered that it does not do this: nothing ran."""


class Unsent(Exception):
    """The request reached nobody: nothing ran, and it may be sent again."""


class Unreached(Unsent):
    """There is no connection, and none could be opened."""


class Lost(Exception):
    """The request was sent, and nobody knows what became of it."""
