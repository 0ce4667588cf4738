"""The answers of a server, and how rows of a store become them and are made of them again.

Every time is a datetime in UTC. What is secret was redacted in the row; nothing here redacts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from ..core.encodable import in_milliseconds, moment
from ..core.request import Request
from ..journal.rows import GrantRow, RequestRow, RunRow

Status = Literal["queued", "running", "waiting", "finished", "failed", "set_aside", "cancelled", "erased", "damaged"]


#: What a stream of events says after the last of them; one that ends without it was cut off.
LAST = b": end"

_GRANT = ("id", "run", "tool", "agent", "uses", "revoked", "damaged")


class RunSeen(msgspec.Struct, frozen=True):
    """Describes a run."""

    run: str
    agent: str
    status: Status
    started_at: datetime
    updated_at: datetime
    waiting: int
    turns: int
    workflow: str
    error: str

    @classmethod
    def of(cls, row: RunRow) -> RunSeen:
        """Show a row."""
        told: dict[str, Any] = msgspec.structs.asdict(row)
        told |= {"started_at": moment(row.started_at), "updated_at": moment(row.updated_at)}
        return cls(**told)

    @property
    def row(self) -> RunRow:
        """Return the row that it shows."""
        told: dict[str, Any] = msgspec.structs.asdict(self)
        for name in ("started_at", "updated_at"):
            told[name] = in_milliseconds(told[name])
        return RunRow(**told)


class RequestSeen(Request, frozen=True, kw_only=True, omit_defaults=False):
    """Describes a request, whatever became of it: `state` is open, or how it was closed, when and by whom."""

    state: str
    closed_at: datetime | None = None
    by: str = ""

    @classmethod
    def of(cls, row: RequestRow) -> RequestSeen:
        """Show a row; of one that is not what was written nothing is shown but its key."""
        if row.state == "damaged":
            asked = moment(max(row.asked_at, 0))
            return cls(row.id, row.run, row.call, "approval", row.tool, row.agent, row.digest, asked, state=row.state)
        told: dict[str, Any] = msgspec.structs.asdict(row.request)
        closed = None if row.closed_at is None else moment(row.closed_at)
        return cls(**told, state=row.state, closed_at=closed, by=row.by)

    @property
    def row(self) -> RequestRow:
        """Return the row that it shows."""
        told: dict[str, Any] = msgspec.structs.asdict(self)
        ended = {name: told.pop(name) for name in ("state", "closed_at", "by")}
        ended["closed_at"] = None if self.closed_at is None else in_milliseconds(self.closed_at)
        return msgspec.structs.replace(RequestRow.of(Request(**told)), **ended)


class GrantSeen(msgspec.Struct, frozen=True):
    """Describes a standing decision; `terms` says for what it holds and who gave it."""

    id: str
    run: str
    tool: str
    agent: str
    uses: int
    revoked: bool
    damaged: bool
    terms: dict[str, Any]
    reaches_other_runs: bool
    scope: str = "run"

    @classmethod
    def of(cls, row: GrantRow) -> GrantSeen:
        """Show a row."""
        terms: dict[str, Any] = {} if row.damaged else msgspec.json.decode(row.body)
        named = row.id, row.run, row.tool, row.agent, row.uses, row.revoked, row.damaged
        return cls(*named, terms, bool(row.reach), row.reach.partition(":")[0] or "run")

    @property
    def row(self) -> GrantRow:
        """Return the row that it shows; of what it reaches it tells the kind alone."""
        named: dict[str, Any] = {name: getattr(self, name) for name in _GRANT}
        reach = "" if self.scope == "run" else self.scope
        return GrantRow(**named, body=msgspec.json.encode(self.terms).decode(), reach=reach)


class RunPage(msgspec.Struct, frozen=True):
    """Holds a page of runs; `next` is the `after` of the page that follows, null where there is none."""

    runs: list[RunSeen]
    next: str | None


class RequestGroup(msgspec.Struct, frozen=True):
    """Holds the ids of the requests of a page that state the same source, "" for those that state none."""

    source: str
    requests: list[str]


class RequestPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Holds a page of requests; `token` names what it shows, so that one can wait until something else is so.

    `groups` are its requests by a part of where they come from, where that was asked for.
    """

    requests: list[RequestSeen]
    next: str | None
    token: str
    groups: list[RequestGroup] = []


class GrantPage(msgspec.Struct, frozen=True):
    """Holds a page of grants."""

    grants: list[GrantSeen]
    next: str | None


class RunNamed(msgspec.Struct, frozen=True):
    """Names a run."""

    run: str


class RunResult(msgspec.Struct, frozen=True):
    """Says what a run came to so far: its answer where it finished, else what requires a decision."""

    run: str
    status: Status
    output: Any
    error: str
    waiting: list[str]


class RunStory(msgspec.Struct, frozen=True):
    """Says of one run how it stands, by its log where its row was altered, and where it failed."""

    run: RunSeen
    traceback: str


class RunLine(msgspec.Struct, frozen=True):
    """Holds one line of a run's log: what became true together, as far as people may see it."""

    line: int
    at: datetime
    events: list[dict[str, Any]]


class Decided(msgspec.Struct, frozen=True):
    """Says what was recorded: who said what of a request and when, and whether that settled it.

    Where it was a drill, `drill` says so in a sentence.
    """

    request: str
    run: str
    verdict: str
    by: str
    at: datetime
    line: int
    settled: bool
    grant: str | None = None
    drill: str | None = None


class Done(msgspec.Struct, frozen=True):
    """Says that it was done."""

    done: Literal[True] = True


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """Says why something was refused; of a lost race who won, by which word and when."""

    kind: str
    message: str
    winner: str | None = None
    decision: str | None = None
    at: datetime | None = None


class Failure(msgspec.Struct, frozen=True):
    """Wraps what is told of a refusal."""

    error: Told


class OneOutcome(msgspec.Struct, frozen=True):
    """Says what became of one request of several."""

    request: str
    ok: bool
    state: str | None = None
    error: Told | None = None


class Outcomes(msgspec.Struct, frozen=True):
    """Says what became of requests that were decided together, in their order."""

    outcomes: list[OneOutcome]


class Form(msgspec.Struct, frozen=True):
    """Holds what an edit form is made of: the tool's schema of its arguments, and what would run now."""

    request: str
    digest: str
    editable: bool
    schema: dict[str, Any] | None
    params: Any


class ToSign(msgspec.Struct, frozen=True):
    """Holds the bytes that somebody signs, in base64; of a decision also what identifies the tool, as it was shown."""

    challenge: bytes
    tool: dict[str, Any] | None = None
