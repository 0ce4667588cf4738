"""Hold a run in this process: its log, its agents, and what cannot be written down.

The log is the truth; everything else here is attached to it while somebody in this process has it in hand.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import msgspec

from ...agents.context import RunContextWrapper
from ...core.approval import Approval
from ...core.codec import Log
from ...core.empties import NONE, owned
from ...core.events import Report
from ...core.items import Item, own_copy
from ...core.people import Decider
from ...core.run import Call, Run
from ...core.seal import Chain
from ...journal.base import Journal
from ...support.forwarding import forwarded
from ...support.keys import ring
from .agents import AgentGraph
from .copies import Copies
from .used_states import THIS_PROCESS, UsedStates

# An answer about the time that took longer, in seconds, is asked for again, so many times.
TIMELY, TRIES = 1.0, 3
_PROCESS_SECRET = secrets.token_bytes(32)


class Witness(Protocol):
    """Says why people's signatures, or their grants, do not apply now; "" where nothing speaks against them."""

    async def objection(self, run: Run, call: Call, terms: Sequence[Approval]) -> str:
        """Return why the signatures on a call do not count by these terms."""
        ...

    async def lapsed(self, who: Decider, terms: Sequence[Approval], requester: str | None) -> str:
        """Return why a grant of somebody does not apply to a call on these terms any more."""
        ...


def wrapped(context: Any) -> RunContextWrapper[Any]:
    """Wrap a caller's context, unless it is wrapped already."""
    return (
        cast("RunContextWrapper[Any]", context)
        if isinstance(context, RunContextWrapper)
        else RunContextWrapper(context)
    )


def clock_ms() -> int:
    """Return the time now, in milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def steady() -> float:
    """Return seconds by a clock that nobody sets and that goes on while the machine sleeps.

    An approval that is to be executed within half an hour is stale after a night with the lid closed.
    """
    return time.clock_gettime(_STEADY) if _STEADY is not None else time.monotonic()


# Linux's CLOCK_MONOTONIC stands still in suspend and CLOCK_BOOTTIME does not; on macOS CLOCK_MONOTONIC does not, while
# `time.monotonic()` asks another clock, which does. Windows' counts on by itself.
_STEADY: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def counted_from(at: int, since: float, count: Callable[[], float] = steady) -> Callable[[], int]:
    """Make a clock that counts on from the journal's time, which was `at` at `since`."""
    return lambda: at + int((count() - since) * 1_000)


async def journal_clock(journal: Journal, count: Callable[[], float] = steady) -> Callable[[], int]:
    """Make a clock that counts on from the journal's time; our own clock where it has none.

    Behind by as long as the answer was on its way, and never ahead: what is written down with a time to come would let
    everything else of the run expire before its time. A decision has the time at which its journal was asked. By a
    clock that is long behind, what has expired could still be decided: a slow answer is asked for again.
    """
    says: Callable[[], Awaitable[int]] | None = getattr(journal, "now", None)  # one of `Records`, which is optional
    if says is None:
        return clock_ms
    at = 0
    for _ in range(TRIES):
        asked, at = count(), await says()
        if count() - asked <= TIMELY:
            break
    return counted_from(at, count(), count)


def chain_of(journal: Journal, run: str) -> Chain:
    """Begin the chain of a run's lines in a journal: its keys, or this process's where it has none of its own."""
    return Chain(getattr(journal, "keys", ring), getattr(journal, "tenant", "default"), run)


def new_salt(run: str) -> str:
    """Make the key of a run's request ids: secret, and another for each run."""
    return blake2b(run.encode(), key=_PROCESS_SECRET, digest_size=16).hexdigest()


class Attachments(NamedTuple):
    """Holds what a caller attaches to a run: at its start, and perhaps anew at a resume."""

    graph: AgentGraph
    context: RunContextWrapper[Any]
    session: Any
    policy: Any
    journal: Journal | None
    kept: bool


class OpenRun(msgspec.Struct, eq=False):
    """Holds one run in this process; `run` is the run as it stands."""

    run: ClassVar[Run] = forwarded("log.run")

    log: Log
    graph: AgentGraph
    context: RunContextWrapper[Any]
    journal: Journal | None = None
    session: Any = None
    policy: Any = None
    prefixes: dict[str, list[Item]] = NONE
    finals: dict[str, Any] = NONE
    # What calls returned in this process and JSON does not hold as it is, with the result that was recorded of it.
    objects: dict[str, tuple[Item, Any]] = NONE
    # What guardrails said in this process, by where they were asked, the newest last.
    guardrails: dict[str, list[tuple[Report, Any]]] = NONE
    clock: Callable[[], int] = clock_ms
    # Answers for people: their signatures, and their grants; None where nobody here knows them.
    witness: Witness | None = None
    # Makes data of the context, where the run is kept in a journal and the context is not data itself.
    serializer: Callable[[Any], Any] | None = None
    # The data of a saved context that nothing here made a context of; None where it came back whole.
    only_data: object = None
    # Whether the log was read from that journal, or written to it, and not from a text that somebody kept.
    kept: bool = False
    # Whether anybody was given a state of it: only then can an older one come back.
    handed_out: bool = False
    # Whether others may know its id before it is begun, so that two may begin it.
    named: bool = False
    # Waits for the end of whoever moved the run last, if that is about to stop, and says how far the run came.
    hand_over: Callable[[], Awaitable[int | None]] | None = None
    copies: Copies = msgspec.field(default_factory=Copies)
    # Which states of it were used already, as far as whoever holds it knows: one process knows no more than its own.
    used: UsedStates = THIS_PROCESS

    def heard(self, on: str, report: Report, result: object) -> Report:
        """Keep what a guardrail said in this process, for whoever asks for results."""
        owned(self, "guardrails").setdefault(on, []).append((report, result))
        return report

    def said(self, on: str, report: Report) -> Any:
        """Return the result that a report is of; None where another process heard it.

        A guardrail may have been asked more than once, as before an approval and after it.
        """
        heard = self.guardrails.get(on, [])
        return next((result for known, result in reversed(heard) if known == report), None)

    def returned(self, call: str, item: Item, value: object) -> Any:
        """Return what a call returned, by what was recorded of it: the object itself where this process has it."""
        recorded, held = self.objects.get(call, (None, None))
        if recorded is not None and recorded == item:
            return held
        return own_copy(value if value is not None else item.get("output"))

    @property
    def attached(self) -> Attachments:
        """Return what is attached to it now."""
        return Attachments(self.graph, self.context, self.session, self.policy, self.journal, self.kept)

    def detach(self, given: Attachments, before: Attachments) -> None:
        """Take back what a resume attached that was refused; a journal that was found to keep the run stays."""
        for name, value in before._asdict().items():
            of_journal = name in ("journal", "kept")
            if getattr(self, name) is getattr(given, name) and not (of_journal and self.kept):
                setattr(self, name, value)

    def conversation(self, frame_id: str) -> list[Item]:
        """Return a frame's conversation as a new list, with the session's history; the items are the run's own."""
        items = self.run.frames[frame_id].items
        prefix = self.prefixes.get(frame_id)
        if not prefix:
            return items.copy()  # type: ignore[return-value]  # without a history no entry is a place in it
        return [prefix[item] if isinstance(item, int) else item for item in items]
