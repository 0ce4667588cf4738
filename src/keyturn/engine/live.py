"""A run as this process holds it: its log, its agents, and what cannot be written down.

The log is the truth; everything else here is attached to it while somebody in this process has it in hand.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, cast

from ..agents.context import RunContextWrapper
from ..core.codec import Log
from ..core.items import Item
from ..core.run import Run
from ..journal.base import Journal, Records
from .graph import Graph

_PROCESS_SECRET = secrets.token_bytes(32)


def wrapped(context: Any) -> RunContextWrapper[Any]:
    """A caller's context in its wrapper, which it may be in already."""
    return (
        cast("RunContextWrapper[Any]", context)
        if isinstance(context, RunContextWrapper)
        else RunContextWrapper(context)
    )


def clock_ms() -> int:
    """The time now, in milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def counted_from(at: int, since: float) -> Callable[[], int]:
    """The journal's clock, which said `at` when this process had counted to `since`."""
    return lambda: at + int((time.monotonic() - since) * 1_000)


async def journal_clock(journal: Journal) -> Callable[[], int]:
    """The journal's clock, as this process counts on from what it says; our own where it has none.

    What is stamped by it may be late by as long as the answer took, and is never early.
    """
    since = time.monotonic()
    return counted_from(await journal.now(), since) if isinstance(journal, Records) else clock_ms


def new_id() -> str:
    """An id that cannot be guessed."""
    return secrets.token_hex(16)


def new_salt(run: str) -> str:
    """The key of a run's request ids: secret, and another for each run."""
    return blake2b(run.encode(), key=_PROCESS_SECRET, digest_size=16).hexdigest()


@dataclass
class Live:
    """One run in hand."""

    log: Log
    graph: Graph
    context: RunContextWrapper[Any]
    journal: Journal | None = None
    session: Any = None
    policy: Any = None
    prefixes: dict[str, list[Item]] = field(default_factory=dict[str, list[Item]])
    finals: dict[str, Any] = field(default_factory=dict[str, Any])
    guardrails: dict[str, Any] = field(default_factory=dict[str, Any])
    clock: Callable[[], int] = clock_ms
    # Makes data of the context, where the run is kept in a journal and the context is not data itself.
    serializer: Callable[[Any], Any] | None = None
    # Whether the log was read from that journal, or written to it, and not from a text that somebody kept.
    kept: bool = False
    # Whether anybody was given a state of it: only then can an older one come back.
    handed_out: bool = False

    @property
    def run(self) -> Run:
        """The run as it stands."""
        return self.log.run

    def conversation(self, frame_id: str) -> list[Item]:
        """A frame's conversation as a new list, the session's history put in place."""
        items = self.run.frames[frame_id].items
        prefix = self.prefixes.get(frame_id)
        if not prefix:
            return items.copy()  # type: ignore[return-value]  # without a history no entry is a place in it
        return [prefix[item] if isinstance(item, int) else item for item in items]
