"""The rows of a store: a projection of the logs for queries, written in the transaction of the lines.

Rows are data. The log is the truth: every row can be made again from it, and `keyturn.audit.checker` does so to see
that none of them lies. Who computes rows is the engine's affair, where they are kept the journal's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, cast

import msgspec

from ..core.encodable import in_milliseconds, moment
from ..core.preview import Json, Preview
from ..core.priorities import NORMAL
from ..core.request import Request


class RunRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Describes one run: who works on what, its status, and how many requests are pending.

    `status` is queued (it waits for its turn on a session), running, waiting, finished, failed, set_aside (it ended
    three workers that took it up), cancelled or erased; "damaged" where the row is not the one that was written.

    >>> RunRow("run", "desk", "waiting", 0, 5, waiting=1).status
    'waiting'
    """

    run: str
    agent: str
    status: str
    started_at: int
    updated_at: int
    waiting: int = 0
    turns: int = 0
    workflow: str = ""
    error: str = ""


#: What a run is in whose session another may begin.
ENDED = ("finished", "failed", "set_aside", "cancelled", "erased")


class Closing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Says how, when and by whom an open request was closed."""

    id: str
    state: str
    at: int
    by: str = ""


class _Shape(msgspec.Struct, frozen=True):
    """Reads the shape alone of the body of a row that was written before schema 8."""

    shape: str = ""


class RequestRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Describes one request: a call that waits, or waited, for somebody.

    `body` is a JSON text of what else people are shown: arguments with secrets redacted, preview, terms, votes, and so
    on; `request` is all of it. `state` is open, or how the request was closed: the verdict, or "void"; "damaged" where
    the row is not what was written. `shape` is equal for requests of the same tool with the same arguments.

    >>> RequestRow("5e1f", "run", "r/1.0", "approval", "pay", "desk", "d1", 5).state
    'open'
    """

    id: str
    run: str
    call: str
    kind: str
    tool: str
    agent: str
    digest: str
    asked_at: int
    expires_at: int | None = None
    reason: str = ""
    risk: str = ""
    body: str = "{}"
    state: str = "open"
    closed_at: int | None = None
    by: str = ""
    shape: str = ""

    @classmethod
    def of(cls, request: Request) -> RequestRow:
        """Make the row of a request that is open."""
        told: dict[str, Any] = _with_moments(msgspec.to_builtins(request, builtin_types=(datetime,)), in_milliseconds)
        told.pop("tool_digest", None)
        if request.preview == Preview((Json(request.params),)):  # it would say all arguments twice
            told.pop("preview", None)
        named = {name: told.pop(name) for name in _COLUMNS if name in told}
        return cls(**named, body=msgspec.json.encode(told).decode())

    @classmethod
    def kept(cls, *values: Any) -> RequestRow:
        """Make a row of what its columns hold; the shape of an older row, which had no such column, is in its body."""
        row = cls(*values)
        if row.shape or row.kind == "review":
            return row
        return msgspec.structs.replace(row, shape=_shape_in(row.body))

    @property
    def place(self) -> tuple[int, str]:
        """Return its place in lists: when it was asked, and its id."""
        return self.asked_at, self.id

    @property
    def request(self) -> Request:
        """Return what people are shown."""
        told: dict[str, Any] = msgspec.json.decode(self.body)
        told.setdefault("preview", {"blocks": [{"kind": "json", "value": told.get("params")}]})
        told |= {name: getattr(self, name) for name in _COLUMNS}
        return msgspec.convert(_with_moments(told, moment), Request)

    @property
    def revision(self) -> int:
        """Return how often it was asked: a decision names it, or the digest."""
        return self.request.revision

    @property
    def params(self) -> Any:
        """Return what would run, secrets redacted."""
        return self.request.params

    @property
    def preview(self) -> Preview:
        """Return what people see of it."""
        return self.request.preview

    def ended(self, end: Closing) -> RequestRow:
        """Return the same request, closed."""
        return msgspec.structs.replace(self, state=end.state, closed_at=end.at, by=end.by)


def _shape_in(body: str) -> str:
    try:
        return msgspec.json.decode(body, type=_Shape).shape
    except msgspec.MsgspecError:
        return ""


def _with_moments(told: dict[str, Any], how: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a request as plain data with its times in another form: a row keeps them in milliseconds."""
    made = {**told, **{name: how(told[name]) for name in _MOMENTS if told.get(name) is not None}}
    for name, time in _WITHIN.items():
        if held := told.get(name):
            several = isinstance(held, list | tuple)
            moved = [_moved(one, time, how) for one in (cast("list[Any]", held) if several else [held])]
            made[name] = moved if several else moved[0]
    if told.get("met"):  # each step of a chain holds votes
        made["met"] = [{**step, "votes": [_moved(vote, "at", how) for vote in step["votes"]]} for step in told["met"]]
    return made


def _moved(held: Any, time: str, how: Callable[[Any], Any]) -> dict[str, Any]:
    return {**held, time: how(held[time])}


#: What of a request holds a time of its own, alone or in a list, and the name of that.
_WITHIN = {
    "votes": "at",
    "withdrawn": "at",
    "former": "at",
    "confirmed": "at",
    "looked": "at",
    "claim": "until",
    "snoozed": "until",
}
_MOMENTS = ("asked_at", "expires_at", "started_at")
# What of a request stands in columns of its own.
_COLUMNS = ("id", "run", "call", "kind", "tool", "agent", "digest", "asked_at", "expires_at", "reason", "risk", "shape")


class GrantRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Describes one standing decision of a run; `body` is its terms as JSON.

    `reach` names the other runs for which it holds, "" for none. `damaged` says that its row was altered.

    >>> GrantRow("g1", "run", "pay", "desk", uses=2).revoked
    False
    """

    id: str
    run: str
    tool: str
    agent: str
    body: str = "{}"
    reach: str = ""
    uses: int = 0
    revoked: bool = False
    damaged: bool = False


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Holds a notice for people; `number` is the store's own, in the order of commits.

    >>> Notice("request.opened", "run", {"request": "5e1f"}).number
    0
    """

    topic: str
    run: str
    about: dict[str, Any] = {}
    number: int = 0


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """Holds a notice on its way to one person by one channel; `number` is the store's own, in the order of notices.

    `subject` is the request or grant that it is about, `notice` the number that the notice had. It is sent no sooner
    than `due_at`; one with a `delay` is given up once its person has looked. `state` is waiting, sending, sent, or dead
    after too many `attempts`, and `error` says why the last one failed. One that was sent, at `sent_at`, is kept for
    as long as its run, so that a request shows who was notified.

    >>> Delivery("mail", "ada", "request.created", "run", "5e1f").state
    'waiting'
    """

    channel: str
    person: str
    topic: str
    run: str
    subject: str
    about: dict[str, Any] = {}
    notice: int = 0
    due_at: int = 0
    delay: int = 0
    attempts: int = 0
    state: str = "waiting"
    error: str = ""
    sent_at: int = 0
    number: int = 0


class Dispatch(msgspec.Struct, frozen=True):
    """Holds what one step of a dispatcher changes, all or nothing.

    The notices with the numbers `told` are deleted, since what became of them is in `added`: those that were read, and
    no others, since a notice can be committed after one with a higher number. `changed` are told by their number; one
    that is not there any more stays away. `gone` are the numbers of those that are not to be delivered any more.
    """

    told: Sequence[int] = ()
    added: list[Delivery] = []
    changed: list[Delivery] = []
    gone: list[int] = []


class DeliveryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Selects deliveries, without those that were sent unless `sent`: all that is given must be equal.

    Pages follow by `after`, a number. With `first`, in the order in which they are due, only those before which nothing
    is to be delivered to the same person, by the same channel, about the same thing; dead ones hold up nothing and are
    left out. Those of the persons in `without` are left out, too.

    >>> DeliveryQuery(state="dead").limit
    100
    """

    channel: str | None = None
    person: str | None = None
    subject: str | None = None
    state: str | None = None
    sent: bool = False
    first: bool = False
    without: tuple[str, ...] = ()
    after: int = 0
    limit: int = 100


#: Where the buckets of a tally end, in milliseconds: a time is in the first that ends after it. The last is open.
EDGES = tuple(
    [seconds * 1_000 for seconds in (1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1_800)]
    + [hours * 3_600_000 for hours in (1, 4, 12, 24, 72, 168)]
)
DAY_MS = 86_400_000
#: What was decided before a store had tallies is not counted. A tally of this word, on day 0, has that last day as ms.
COUNTED_FROM = "counted from"
_LONGEST_MS = 1 << 40  # some thirty years: clocks may say anything, and sums of this fit every store
_LAST_DAY = 1 << 30


class Tally(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts what became of requests on one day: how often, how long it took in sum, and how often in each bucket.

    `what` is how a request was closed, or what else was said of it: `engine/views/tallies.py` has the words. It holds
    names and numbers, no arguments, and so it outlives the erasure of the runs that it counts.

    >>> Tally.once("approve", 5_000, at=86_400_000, tool="pay").day
    1
    """

    what: str
    tool: str = ""
    agent: str = ""
    kind: str = ""
    risk: str = ""
    person: str = ""
    day: int = 0
    count: int = 0
    ms: int = 0
    times: tuple[int, ...] = (0,) * (len(EDGES) + 1)

    @classmethod
    def once(cls, what: str, ms: int, *, at: int, **names: str) -> Tally:
        """Count one thing that took so long and happened at that time."""
        took = min(max(ms, 0), _LONGEST_MS)
        place = bisect_right(EDGES, took)
        times = (*(0,) * place, 1, *(0,) * (len(EDGES) - place))
        return cls(what, day=min(max(at // DAY_MS, 0), _LAST_DAY), count=1, ms=took, times=times, **names)

    @property
    def names(self) -> tuple[str, ...]:
        """Return what it counts, without the day."""
        return self.what, self.tool, self.agent, self.kind, self.risk, self.person

    def __add__(self, other: Tally) -> Tally:
        times = tuple(map(int.__add__, self.times, other.times))
        return msgspec.structs.replace(self, count=self.count + other.count, ms=self.ms + other.ms, times=times)


def summed(tallies: Iterable[Tally]) -> list[Tally]:
    """Add up tallies of the same thing on the same day.

    >>> once = Tally.once("approve", 5, at=0)
    >>> [each.count for each in summed([once, once])]
    [2]
    """
    found = dict[tuple[int, tuple[str, ...]], Tally]()
    for each in tallies:
        key = (each.day, each.names)
        found[key] = found[key] + each if key in found else each
    return list(found.values())


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """Selects tallies by days since 1970, both included; `daily` keeps the days apart, else they are added up.

    >>> Period(since=20_000).daily
    False
    """

    since: int | None = None
    until: int | None = None
    daily: bool = False


class Changes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Holds what one append changes beside the log, all or nothing with it.

    Requests are closed before others are opened: one that asks again is open under the id it had. `quiet`: the run is
    as due as it was. On its `session`, by the store's name, it has a place until it is over. `format`: of the lines.
    `priority`: the place in `PRIORITIES`, which is kept with a run's first lines.
    """

    run: RunRow
    opened: list[RequestRow] = []
    closed: list[Closing] = []
    grants: list[GrantRow] = []
    revoked: list[str] = []
    notices: list[Notice] = []
    quiet: bool = False
    tallies: list[Tally] = []
    session: str = ""
    format: int = 0
    priority: int = NORMAL


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Selects rows: all that is given must be equal; pages follow each other by `after`, the last row's key.

    `shape` selects requests of the same tool with the same arguments, and has an index of the open ones; "" selects
    those without one: reviews, and what was asked before stores had that column. `reaches` selects grants that reach
    beyond their run. Rows come in the order of their time (asked, started), the oldest first unless `newest`.

    >>> Query(state="open", tool="pay").limit
    100
    """

    id: str | None = None
    run: str | None = None
    state: str | None = None
    agent: str | None = None
    tool: str | None = None
    kind: str | None = None
    shape: str | None = None
    reaches: tuple[str, ...] | None = None
    after: tuple[int, str] | None = None
    limit: int = 100
    newest: bool = False


#: The first page of everything.
ALL = Query()
