"""The rows of one tenant in this process's memory: what a database would keep in its tables.

It applies changes and answers queries; locks, logs and time are the journal's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from typing import Any, TypeVar

from msgspec.structs import replace

from .rows import (
    Changes,
    Delivery,
    DeliveryQuery,
    Dispatch,
    GrantRow,
    Notice,
    Period,
    Query,
    RequestRow,
    RunRow,
    Tally,
    summed,
)

Row = TypeVar("Row", RunRow, RequestRow, GrantRow)
# What a query may ask of a row, under the row's own name for it.
_ASKED = ("run", "agent", "tool", "kind", "shape")


@dataclass(slots=True)
class MemoryRows:
    """Keeps runs, requests, grants, notices and deliveries."""

    runs: dict[str, RunRow] = field(default_factory=dict[str, RunRow])
    queued: set[str] = field(default_factory=set[str])
    requests: dict[str, RequestRow] = field(default_factory=dict[str, RequestRow])
    asked_in: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])  # requests by run
    grants: dict[tuple[str, str], GrantRow] = field(default_factory=dict[tuple[str, str], GrantRow])
    notices: list[Notice] = field(default_factory=list[Notice])
    numbered: int = 0
    outgoing: dict[int, Delivery] = field(default_factory=dict[int, Delivery])
    outnumbered: int = 0
    tallies: dict[tuple[int, tuple[str, ...]], Tally] = field(default_factory=dict[tuple[int, tuple[str, ...]], Tally])

    def apply(self, changes: Changes) -> None:
        """Apply what an append changes."""
        self.runs[changes.run.run] = changes.run
        if changes.run.status == "queued":
            self.queued.add(changes.run.run)
        else:
            self.queued.discard(changes.run.run)
        for closing in changes.closed:
            row = self.requests.get(closing.id)
            if row is not None:
                self.requests[closing.id] = row.ended(closing)
        for row in changes.opened:
            self.requests[row.id] = row
            self.asked_in.setdefault(row.run, {})[row.id] = None
        for grant in changes.grants:
            self.grants[grant.run, grant.id] = grant
        for name in changes.revoked:
            key = (changes.run.run, name)
            if key in self.grants:
                self.grants[key] = replace(self.grants[key], revoked=True)
        self.tell(changes.notices)
        for tally in changes.tallies:
            key = (tally.day, tally.names)
            self.tallies[key] = self.tallies[key] + tally if key in self.tallies else tally

    def tell(self, notices: Iterable[Notice]) -> None:
        """Add notices."""
        for notice in notices:
            self.numbered += 1
            self.notices.append(replace(notice, number=self.numbered))

    def dispatch(self, step: Dispatch) -> None:
        """Apply a dispatcher's step."""
        self.outbox(0, step.told)
        for row in step.added:
            self.outnumbered += 1
            self.outgoing[self.outnumbered] = replace(row, number=self.outnumbered)
        for row in step.changed:
            if row.number in self.outgoing:
                self.outgoing[row.number] = row
        for number in step.gone:
            self.outgoing.pop(number, None)

    def deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        """Return deliveries, in the order of their numbers or in that in which they are due."""
        asked = [(name, getattr(query, name)) for name in ("channel", "person", "subject", "state")]
        wanted = [(name, value) for name, value in asked if value is not None]
        fits = [
            row
            for row in self.outgoing.values()
            if row.number > query.after
            and (query.sent or row.state != "sent")
            and row.person not in query.without
            and all(getattr(row, name) == value for name, value in wanted)
        ]
        if not query.first:
            return nsmallest(query.limit, fits, key=lambda row: row.number)
        heads = dict[tuple[str, str, str], int]()
        for row in self.outgoing.values():  # in the order of their numbers
            if row.state not in ("dead", "sent"):
                heads.setdefault((row.channel, row.person, row.subject), row.number)
        first = (row for row in fits if heads.get((row.channel, row.person, row.subject)) == row.number)
        return nsmallest(query.limit, first, key=lambda row: (row.due_at, row.number))

    def send_again(self, numbers: Iterable[int], now: int) -> int:
        """Let dead deliveries wait anew; return how many there were."""
        dead = [row for number in dict.fromkeys(numbers) if (row := self.outgoing.get(number)) is not None]
        dead = [row for row in dead if row.state == "dead"]
        for row in dead:
            self.outgoing[row.number] = replace(row, due_at=now, attempts=0, state="waiting", error="")
        return len(dead)

    def find_runs(self, query: Query) -> list[RunRow]:
        """Return runs, in the order in which they started."""
        wanted = query.run if query.id is None else query.id
        known = self.runs.values() if wanted is None else _there(self.runs, [wanted])
        rows = (row for row in known if query.state in (None, row.status))
        return _page(rows, query, lambda row: (row.started_at, row.run))

    def find_requests(self, query: Query) -> list[RequestRow]:
        """Return requests, in the order in which they were asked."""
        known = self.requests.values()
        if query.id is not None:
            known = _there(self.requests, [query.id])
        elif query.run is not None:
            known = _there(self.requests, self.asked_in.get(query.run, ()))
        rows = (row for row in known if query.state in (None, row.state))
        return _page(rows, query, lambda row: row.place)

    def find_grants(self, query: Query) -> list[GrantRow]:
        """Return grants, in the order of their ids."""
        rows = (
            row
            for row in self.grants.values()
            if query.id in (None, row.id)
            and query.state in (None, "revoked" if row.revoked else "open")
            and (query.reaches is None or (row.reach and row.reach in query.reaches))
        )
        return _page(rows, query, lambda row: (0, f"{row.run}/{row.id}"))

    def outbox(self, limit: int, done: Sequence[int]) -> list[Notice]:
        """Return undelivered notices, after the delivered ones are deleted."""
        if done:
            self.notices = [notice for notice in self.notices if notice.number not in done]
        return self.notices[:limit]

    def find_tallies(self, period: Period) -> list[Tally]:
        """Return what was counted in a period."""
        since, until = period.since or 0, period.until
        found = [row for row in self.tallies.values() if since <= row.day and (until is None or row.day <= until)]
        return found if period.daily else summed(replace(row, day=0) for row in found)

    def erase(self, run: str) -> None:
        """Erase what the rows of a run say, and keep that it was."""
        row = self.runs.get(run)
        if row is not None:
            self.queued.discard(run)
            self.runs[run] = RunRow(run, row.agent, "erased", row.started_at, row.updated_at, turns=row.turns)
        self.requests = {name: row for name, row in self.requests.items() if row.run != run}
        self.asked_in.pop(run, None)
        self.grants = {name: row for name, row in self.grants.items() if row.run != run}
        self.notices = [notice for notice in self.notices if notice.run != run]
        self.outgoing = {number: row for number, row in self.outgoing.items() if row.run != run}


def _there(rows: dict[str, Row], names: Iterable[str]) -> list[Row]:
    """Return the rows of these names, as far as they are there."""
    return [row for name in names if (row := rows.get(name)) is not None]


def _page(rows: Iterable[Row], query: Query, key: Callable[[Row], tuple[int, str]]) -> list[Row]:
    asked: list[tuple[str, Any]] = [(name, getattr(query, name)) for name in _ASKED]
    wanted = [(name, value) for name, value in asked if value is not None]
    fits = (row for row in rows if all(getattr(row, name, value) == value for name, value in wanted))
    if query.newest:
        return nlargest(query.limit, (row for row in fits if query.after is None or key(row) < query.after), key=key)
    return nsmallest(query.limit, (row for row in fits if query.after is None or key(row) > query.after), key=key)
