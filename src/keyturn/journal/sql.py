"""The operations of a SQL journal, statement by statement, for one tenant: the same for every database.

Each function takes a connection inside a transaction and is all or nothing there. Threads, commits, dialects' drivers
and waking are the business of the members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from ..core.errors import Conflict, LogDamaged
from ..core.priorities import NORMAL
from ..core.seal import Keys, Ring, erased, parted
from ..core.states import OVER
from . import due_sql, outbox_sql
from . import statements as say
from .base import Claim, ClaimFilter, DueRun, Lease, LostRace
from .lease_sql import (
    LONGEST_MS,
    NO_ROW,
    DueWhen,
    LogPlace,
    check_free,
    check_room,
    check_takable,
    give_back,
    place_in,
    take,
)
from .optional import DueClaims, FleetLimits
from .pages import keyed_rows
from .rows import (
    ENDED,
    Changes,
    Closing,
    Delivery,
    DeliveryQuery,
    Dispatch,
    GrantRow,
    Notice,
    Query,
    RequestRow,
    RunRow,
)
from .sealing import DAMAGED, Row, askable, columns, marked, plain_notice, seal_row, verified
from .selecting import SqlTable, select
from .statements import SqlDialect
from .store_thread import StoreConnection


class Appended(NamedTuple):
    """Holds what an append came to beside its lines, or a release.

    `session` is where the run is to be given a place, `claim` the lease that was taken along; `becomes_due` says when
    the run is due, now that its lease was given back, or that it was written to without one.
    """

    session: str = ""
    claim: Claim | None = None
    becomes_due: DueWhen = DueWhen.NEVER
    priority: int = NORMAL


class Tenant:
    """Runs the operations on one tenant's part of a database."""

    def __init__(self, dialect: SqlDialect, tenant: str, keys: Keys) -> None:
        self._dialect = dialect
        self.name = tenant
        self._keys = keys

    def append(
        self,
        db: StoreConnection,
        run: str,
        expected: int,
        lines: list[bytes],
        claim: Claim | None,
        changes: Changes | None,
        lease: Lease | None = None,
    ) -> Appended:
        """Append lines, apply what they change, and do to the lease what goes along.

        A place on a session is given as it is committed, and so are tallies added.
        """
        at = self._place(db, run) if claim is None else self._held(db, run, claim)
        if lease is not None and lease.worker:
            check_takable(run, at, lease)
        if at.status == "erased":
            raise Conflict(f"run {run!r} was erased and cannot be written to")
        if expected != at.head:
            raise LostRace(f"expected {expected} lines, the log has {at.head}")
        if not lines:
            return Appended()
        taken = None
        if lease is not None and lease.worker:
            taken, at = take(db, self.name, run, at, lease.worker, lease.ttl_ms)
            claim = taken
        at = self._write(db, run, at, lines, claim, changes)
        becomes_due = DueWhen.NEVER
        if claim is None and at.due is not None and at.due <= at.now and (at.holder is None or at.until <= at.now):
            becomes_due = DueWhen.NOW
        if lease is not None and lease.ends:
            assert claim is not None
            becomes_due = give_back(db, self.name, claim, at, lease.due)
        session = "" if changes is None or at.session or at.status in ENDED else changes.session
        return Appended(session, taken, becomes_due, at.priority)

    def _write(
        self,
        db: StoreConnection,
        run: str,
        at: LogPlace,
        lines: list[bytes],
        claim: Claim | None,
        changes: Changes | None,
    ) -> LogPlace:
        """Write lines and what they change; return where the run is then."""
        # Whoever appends under the claim has read all before it; what another appends still wants to be read.
        # A run that was over and is over, or never was anything else, has nothing to be moved: what is said of it is
        # revoked, lent or counted. So has one of which only something was noted.
        over = changes is not None and (at.status in OVER or not at.head) and changes.run.status in OVER
        over = over or (changes is not None and changes.quiet and claim is None)
        wanted = at.due if over else None if claim is not None else at.now if at.due is None else min(at.due, at.now)
        for place, line in enumerate(lines, at.head):
            db.tell(say.ADD_LINE, self.name, run, place, line)
        end = (at.head + len(lines), wanted, int(claim is None))
        at = msgspec.structs.replace(at, head=end[0], due=wanted)
        if changes is None:
            db.tell(say.APPENDED, *end, self.name, run)
            return at
        keys = self._keys()
        row = changes.run
        values = (row.agent, row.status, row.updated_at, row.waiting, row.turns, row.workflow, row.error)
        db.tell(say.MOVED, *end, *values, changes.format, seal_row(keys, self.name, row), self.name, run)
        if row.started_at != at.started_at:
            at = msgspec.structs.replace(at, priority=changes.priority)
            db.tell(say.STARTED, row.started_at, at.priority, self.name, run)
        if at.session and at.holder is None and row.status in ENDED:
            db.tell(say.GONE, self.name, run)
        self._change(db, changes, keys)
        return msgspec.structs.replace(at, status=row.status)

    def ahead(self, db: StoreConnection, run: str) -> list[str]:
        """Return the runs that are before one on its session."""
        return [name for (name,) in db.execute(say.AHEAD, self.name, run, db.now()) if isinstance(name, str)]

    def holds(self, db: StoreConnection, run: str, place: int, line: bytes) -> bool:
        """Return whether the log has that very line at a place, for a writer whose commit was never answered."""
        self._settle(db, run)
        found = db.execute(say.LINE_AT, self.name, run, place)
        return bool(found) and _bytes(found[0][0]) == line

    def read(self, db: StoreConnection, run: str, after: int, limit: int | None = None) -> list[bytes]:
        """Return lines from a place on: as many as the head says, or the limit, or raise `LogDamaged`."""
        after = max(after, 0)
        most = () if limit is None else (limit,)
        ends = tuple(after + each for each in most)  # a range of the index: a limit would sort the rest of the log
        found = db.execute(say.SOME_LINES if most else say.LINES, after, *ends, self.name, run)
        if not found or found[0][1] == "erased":
            return []
        head, lines = found[0][0], list[bytes]()
        for place, (_, _, seq, line) in enumerate(found if found[0][2] is not None else [], after):
            if seq != place or not isinstance(line, bytes):
                raise LogDamaged(run, place, "is not there")
            lines.append(line)
        if type(head) is not int or head < 0 or len(lines) != min(max(head - after, 0), *most, head):
            raise LogDamaged(run, after + len(lines), "is not there, or not as many lines are as the journal counts")
        return lines

    def head(self, db: StoreConnection, run: str) -> int:
        """Return how many lines a log has."""
        found = db.execute(say.HEAD, self.name, run)
        head = found[0][0] if found else 0
        if type(head) is not int or head < 0:
            raise LogDamaged(run, 0, NO_ROW)
        return head

    def links(self, db: StoreConnection, run: str) -> list[tuple[str, str]]:
        """Return the digests and seals of a log's lines."""
        return [parted(_bytes(line)) for _, line in db.execute(say.ALL_LINES, self.name, run)]

    def shelve(self, db: StoreConnection, run: str, later: int) -> None:
        """Postpone a run of which nothing can be read, so that no other waits for it."""
        db.tell(say.SHELVE, db.now() + later, self.name, run)

    def claim(
        self, db: StoreConnection, run: str, worker: str, ttl_ms: int, limits: FleetLimits | None = None
    ) -> Claim:
        """Take the lease on a run, where limits of the fleet leave room for it."""
        at = self._place(db, run)
        check_free(run, at)
        if limits is not None:
            check_room(db, self._dialect, self.name, limits)
        return take(db, self.name, run, at, worker, ttl_ms)[0]

    def cap(self, db: StoreConnection, run: str, ttl_ms: int) -> None:
        """Shorten a claim that ends too far ahead: a live holder renews it before."""
        at = self._known(db, run)
        if at is not None and at.holder is not None and at.until > at.now + LONGEST_MS:
            db.tell(say.RENEWED, at.now + ttl_ms, self.name, run)

    def held_by(self, db: StoreConnection, run: str) -> tuple[str, int] | None:
        """Return who holds a run, and under which epoch, for a worker whose claim was never answered."""
        self._settle(db, run)
        found = db.execute(say.HEAD, self.name, run)
        return (found[0][2], int(found[0][1])) if found and found[0][2] is not None else None

    def renew(self, db: StoreConnection, claim: Claim, ttl_ms: int) -> Claim:
        """Renew the lease on a run."""
        now = self._held(db, claim.run, claim).now
        db.tell(say.RENEWED, now + ttl_ms, self.name, claim.run)
        return msgspec.structs.replace(claim, until=now + ttl_ms, at=now)

    def release(self, db: StoreConnection, claim: Claim, due: int | None) -> Appended:
        """Give the lease back, and say when the run, or the next one on its session, may be due."""
        try:
            at = self._held(db, claim.run, claim)
        except Conflict:
            return Appended()
        return Appended(becomes_due=give_back(db, self.name, claim, at, due), priority=at.priority)

    def due(self, db: StoreConnection, limit: int, only: ClaimFilter | None = None) -> list[DueRun]:
        """Return runs that are due, in the order in which they are claimed."""
        return due_sql.due(db, self._dialect, self.name, limit, only or ClaimFilter())

    def overdue(self, db: StoreConnection, limit: int, only: ClaimFilter | None = None) -> list[DueRun]:
        """Return runs that are due, the longest first."""
        return due_sql.overdue(db, self._dialect, self.name, limit, only or ClaimFilter())

    def claim_due(self, db: StoreConnection, worker: str, ttl_ms: int, limit: int, only: ClaimFilter) -> DueClaims:
        """Take the leases on runs that are due."""
        return due_sql.claim_due(db, self._dialect, self.name, Lease(worker, ttl_ms), limit, only)

    def next_due(self, db: StoreConnection, only: ClaimFilter | None = None) -> tuple[int | None, int]:
        """Return when the next run is due, and the time now."""
        return due_sql.next_due(db, self._dialect, self.name, only or ClaimFilter()), db.now()

    def runs(self, db: StoreConnection, query: Query) -> list[RunRow]:
        """Return rows of runs."""
        asked = {"run": query.id or query.run, "status": query.state, "agent": query.agent}
        return self._page(db, RunRow, _RUNS, asked, query)

    def requests(self, db: StoreConnection, query: Query) -> list[RequestRow]:
        """Return rows of requests."""
        asked = {name: getattr(query, name) for name in ("id", "run", "state", "agent", "tool", "kind", "shape")}
        return self._page(db, RequestRow, _REQUESTS, asked, query)

    def grants(self, db: StoreConnection, query: Query) -> list[GrantRow]:
        """Return rows of grants."""
        revoked = None if query.state is None else int(query.state == "revoked")
        asked = {"id": query.id, "run": query.run, "agent": query.agent, "tool": query.tool, "revoked": revoked}
        return self._page(db, GrantRow, _GRANTS, asked, query)

    def outbox(self, db: StoreConnection, limit: int, done: Sequence[int]) -> list[Notice]:
        """Return undelivered notices."""
        outbox_sql.told(db, self.name, done)
        return outbox_sql.notices(db, self.name, limit)

    def tell(self, db: StoreConnection, notices: list[Notice]) -> None:
        """Add notices."""
        outbox_sql.tell(db, self.name, [plain_notice(notice) for notice in notices])

    def deliveries(self, db: StoreConnection, query: DeliveryQuery) -> list[Delivery]:
        """Return deliveries."""
        return outbox_sql.deliveries(db, self.name, query)

    def dispatch(self, db: StoreConnection, claim: Claim, step: Dispatch) -> None:
        """Apply a dispatcher's step, under its claim."""
        self._held(db, claim.run, claim)
        outbox_sql.dispatch(db, self.name, step)

    def send_again(self, db: StoreConnection, numbers: list[int]) -> int:
        """Let dead deliveries wait anew."""
        return outbox_sql.send_again(db, self.name, numbers)

    def erase(self, db: StoreConnection, run: str) -> None:
        """Erase what a run says; the digests of its lines stay."""
        at = self._known(db, run)
        if at is None:
            return
        if at.holder is not None and at.now < at.until:
            raise Conflict(f"run {run!r} is held by {at.holder!r}; cancel it first", winner=at.holder)
        for place, line in db.execute(say.ALL_LINES, self.name, run):
            db.tell(say.ERASE_LINE, erased(_bytes(line)), self.name, run, place)
        *values, seal = db.execute(say.RUN, self.name, run)[0]
        was = verified(self._keys(), self.name, RunRow, values, seal)
        row = msgspec.structs.replace(was, status="erased", waiting=0, workflow="", error="")
        given = (row.agent, row.status, row.updated_at, row.waiting, row.turns, row.workflow, row.error)
        db.tell(say.ERASED, *given, seal_row(self._keys(), self.name, row), self.name, run)
        db.tell(say.GONE, self.name, run)
        for statement in say.ERASE:
            db.tell(statement, self.name, run)

    def _settle(self, db: StoreConnection, run: str) -> None:
        """Wait until nobody is at work on a run: a commit whose answer got lost may still be under way."""
        if self._dialect.locked:
            self._place(db, run)

    def _known(self, db: StoreConnection, run: str) -> LogPlace | None:
        """Return where a run is, for whoever is about to change that; None for an unknown one."""
        found = db.known(self.name, run)
        if not found:
            return None
        return place_in(run, (*found[0][:-1], db.now(found[0][-1])))

    def _place(self, db: StoreConnection, run: str) -> LogPlace:
        """Return where a run is; an unknown one begins here."""
        at = self._known(db, run)
        if at is None:
            db.tell(say.NEW_RUN, self.name, run)
            at = self._known(db, run)
            assert at is not None
        return at

    def _held(self, db: StoreConnection, run: str, claim: Claim) -> LogPlace:
        """Return where a run is that is still held under this claim, or raise `Conflict`."""
        at = self._known(db, run)
        if at is None or at.holder is None:
            raise Conflict(f"run {run!r} is not held under this claim: its lease was released; claim the run again")
        if (claim.run, claim.worker, claim.epoch) != (run, at.holder, at.epoch):
            raise Conflict(
                f"run {run!r} is held by {at.holder!r} under epoch {at.epoch}, not by {claim.worker!r} under "
                f"epoch {claim.epoch}; stop, and leave the run to them",
                winner=at.holder,
            )
        return at

    def _change(self, db: StoreConnection, changes: Changes, keys: Ring) -> None:
        for closing in changes.closed:
            self._close(db, closing, keys)
        for row in changes.opened:
            db.tell(say.OPEN, self.name, *columns(row), seal_row(keys, self.name, row))
        for each in changes.grants:
            body = (each.tool, each.agent, each.body, each.reach, each.uses, int(each.revoked))
            db.tell(say.GRANT, self.name, each.run, each.id, *body, seal_row(keys, self.name, each))
        for name in changes.revoked:
            self._revoke(db, changes.run.run, name, keys)
        outbox_sql.tell(db, self.name, changes.notices)

    def _close(self, db: StoreConnection, end: Closing, keys: Ring) -> None:
        """Close a request; one that was altered is not sealed again, since that would make a forgery good."""
        found = db.execute(say.REQUEST, self.name, end.id)
        if not found:
            return
        *values, seal = found[0]
        row = verified(keys, self.name, RequestRow, values, seal)
        ended = msgspec.structs.replace(row.ended(end), shape=values[-1])  # as it stands in its column
        fresh = "" if row.state == DAMAGED else seal_row(keys, self.name, ended)
        db.tell(say.CLOSE, end.state, end.at, end.by, fresh, self.name, end.id)

    def _revoke(self, db: StoreConnection, run: str, name: str, keys: Ring) -> None:
        found = db.execute(say.GRANT_OF, self.name, run, name)
        if not found:
            return
        *values, seal = found[0]
        row = verified(keys, self.name, GrantRow, values, seal)
        revoked = msgspec.structs.replace(row, revoked=True)
        fresh = "" if row.damaged else seal_row(keys, self.name, revoked)
        body = (row.tool, row.agent, row.body, row.reach, row.uses, 1)
        db.tell(say.GRANT, self.name, run, name, *body, fresh)

    def _page(
        self, db: StoreConnection, kind: type[Row], table: SqlTable, asked: dict[str, Any], query: Query
    ) -> list[Row]:
        """Return a page of a table; a row that cannot be read, or is not the one that was written, is marked."""
        if not askable(query):
            return []
        made = select(self._dialect, table, self.name, asked, query)
        found, broken = keyed_rows(db, made.rows, made.keys, *made.values)
        ring, names = self._keys(), _fields(kind)
        rows = [verified(ring, self.name, kind, row[:-1], row[-1]) for row in found]
        if not broken:
            return rows
        rows += [marked(kind, dict(zip(names, row, strict=False))) for row in broken]
        return sorted(rows, key=_KEYS[kind], reverse=query.newest)


_RUNS = SqlTable("runs", say.RUN_COLUMNS, ("run",), "started_at", "run")
_REQUESTS = SqlTable("requests", say.REQUEST_COLUMNS, ("id",), "asked_at", "id")
_GRANTS = SqlTable("grants", say.GRANT_COLUMNS, ("run", "id"), "0", "run || '/' || id")
_KEYS: dict[type[Any], Callable[[Any], Any]] = {
    RunRow: lambda row: (row.started_at, row.run),
    RequestRow: lambda row: row.place,
    GrantRow: lambda row: f"{row.run}/{row.id}",
}


def _fields(kind: type[Any]) -> tuple[str, ...]:
    return kind.__struct_fields__


def _bytes(value: object) -> bytes:
    """Return what a column of bytes holds; nothing where it holds something else."""
    return value if isinstance(value, bytes) else b""
