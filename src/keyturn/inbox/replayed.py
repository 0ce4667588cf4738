"""Hold what a replay of past calls found: how a call was judged, and how it would be."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Said = Literal["allow", "ask", "deny", "unknown"]


class Replayed(msgspec.Struct, frozen=True):
    """Tells of one call what was said of it, and what would be; `arguments` come with secrets redacted.

    >>> Replayed("r", "r/1.0", 5, "pay", "desk", {}, "allow", "ask").changed
    True
    """

    run: str
    call: str
    at: int
    tool: str
    agent: str
    arguments: Any
    was: Said
    would: Said
    reason: str = ""

    @property
    def changed(self) -> bool:
        """Return whether the call would surely be treated in another way."""
        return "unknown" not in (self.was, self.would) and self.was != self.would


class Unread(msgspec.Struct, frozen=True):
    """Names a run that could not be read, and why."""

    run: str
    why: str
