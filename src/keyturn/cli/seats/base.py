"""Say what commands ask of wherever they work, for one person: runs, people, the record, policies, and an inbox.

What is told is the same structs at a journal and at a server, so that a command prints the same of both.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from ...audit.decisions.entry import AuditEntry
from ...core.people import Proof
from ...core.priorities import Priority
from ...directory.read_lines import Read
from ...inbox.figures import InsightsReport
from ...inbox.personal import PersonalInbox
from ...inbox.replayed import Suggestion
from ...journal.rows import Query, RequestRow, RunRow
from ...presenting.facts import Story
from ...proofs.base import PublicKey
from ...wire.people import DelegationSeen, KeySeen, PersonSeen, TokenSeen
from ...wire.records import ReplayReport

#: What signs a challenge.
Signing = Callable[[bytes], Proof]


class RunStart(NamedTuple):
    """Says what a run begins with."""

    agent: str
    input: str
    requester: str | None = None
    session: str | None = None
    priority: Priority = "normal"


class SeatOutcome(NamedTuple):
    """Holds what a run came to: its row, its answer where it finished, what waits, and whether it goes on."""

    row: RunRow
    output: Any = None
    waiting: Sequence[RequestRow] = ()
    goes_on: bool = False


class EventLine(NamedTuple):
    """Holds one event of a run as it is told to people: when, its name, and rows of words that are escaped."""

    at: datetime
    event: str
    words: Sequence[str]


class SeenDirectory(NamedTuple):
    """Holds who is who, as far as it is shown; None stands for what is not shown to whoever asks."""

    people: Sequence[PersonSeen]
    tokens: Sequence[TokenSeen] | None
    keys: Sequence[KeySeen]
    delegations: Sequence[DelegationSeen]
    place: int


class RunsSeat(Protocol):
    """Finds, starts, follows and steers runs."""

    @property
    def mover(self) -> str:
        """Return who moves a run that was only started, in escaped words."""
        ...

    async def runs(self, query: Query) -> Sequence[RunRow]:
        """Return the rows of a query."""
        ...

    async def story(self, row: RunRow) -> Story:
        """Return how a run stands, and where it failed."""
        ...

    async def start(self, start: RunStart) -> RunRow:
        """Record that a run starts."""
        ...

    async def carry(self, start: RunStart, seconds: float | None) -> SeatOutcome:
        """Start a run, and return what it came to once it is over, requires a decision, or has had its time."""
        ...

    async def steer(self, word: str, run: str, *given: Any) -> str:
        """Send a run a message, cancel it for a reason, resume it, or fork it at a line; return the id of the run."""
        ...

    def lines(self, run: str, *, follow: bool) -> AsyncGenerator[EventLine]:
        """Yield what happened in a run, and with `follow` what happens until it ends."""
        ...


class PeopleSeat(Protocol):
    """Tells who is who, and changes it as whoever asks."""

    async def book(self) -> SeenDirectory:
        """Return who is who now."""
        ...

    async def log(self) -> Sequence[dict[str, Any]]:
        """Return every change there was, oldest first."""
        ...

    async def settings(self, person: str) -> dict[str, Any]:
        """Return the settings of a person, or of everybody for ""."""
        ...

    async def change(self, word: str, *given: Any, **more: Any) -> Any:
        """Say a word of `keyturn.directory.People` that changes it; return a secret where it made one."""
        ...

    async def enrol(self, key: PublicKey, text: str, sign: Signing) -> KeySeen:
        """Enrol an own key of whoever asks, who signs with it."""
        ...

    async def confirm(self, key: str, sign: Signing | None) -> KeySeen:
        """Confirm that a key is its owner's."""
        ...


class InsightsSeat(Protocol):
    """Tells how people decide."""

    async def report(self, *, days: int = 30) -> InsightsReport:
        """Return what was counted in so many days."""
        ...

    async def suggestions(self, *, tool: str | None = None) -> Sequence[Suggestion]:
        """Return rules that would have let run what people approved unchanged."""
        ...


class Record(Protocol):
    """Searches who decided what, and who read what."""

    async def search(self, *, after: str | None, limit: int, **terms: Any) -> Sequence[AuditEntry]:
        """Return decisions, the oldest run first."""
        ...

    async def reads(self, *, person: str | None, request: str | None) -> Sequence[Read]:
        """Return who read the arguments of calls."""
        ...


class PoliciesSeat(Protocol):
    """Tries policies on past calls."""

    async def replayed(self, policy: str | None, since: str | None, examples: int) -> ReplayReport:
        """Return what a policy would have said, the text of its file; None for the one in shadow mode."""
        ...


class Seat(NamedTuple):
    """Holds what a command may ask; `inbox` opens that of the person, whose login has to be good for a scope."""

    inbox: Callable[[str], Awaitable[PersonalInbox]]
    runs: RunsSeat
    people: PeopleSeat
    insights: InsightsSeat
    record: Record
    policies: PoliciesSeat
