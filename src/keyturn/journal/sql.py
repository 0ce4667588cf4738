"""What a SQL journal does, statement by statement, for one tenant: the same for every database.

Each function takes a connection inside a transaction and is all or nothing there. Threads, commits, dialects' drivers
and waking are the business of the members.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.codec import GENESIS, line_digest
from ..core.errors import Conflict
from . import statements as say
from .base import Claim, LostRace
from .chain import linked
from .rows import Changes, GrantRow, Notice, Query, RequestRow, RunRow
from .statements import Dialect
from .store_thread import Connection


class Place(msgspec.Struct, frozen=True):
    """Where a log ends, who holds its run, when that is due, and the time."""

    head: int
    hash: str
    epoch: int
    holder: str | None
    until: int
    due: int | None
    status: str
    started_at: int
    now: int


class Tenant:
    """One tenant's part of a database."""

    def __init__(self, dialect: Dialect, tenant: str) -> None:
        self._dialect, self.name = dialect, tenant

    def append(
        self, db: Connection, run: str, expected: int, lines: list[bytes], claim: Claim | None, changes: Changes | None
    ) -> str | None:
        """Add lines and what they change; the hash of the last one, None where there was nothing to add."""
        at = self._place(db, run) if claim is None else self._held(db, run, claim)
        if at.status == "erased":
            raise Conflict(f"run {run!r} was erased; it takes no more lines")
        if expected != at.head:
            raise LostRace(f"expected {expected} lines, the log has {at.head}")
        if not lines:
            return None
        links = linked(lines, at.hash)
        # Whoever appends under the claim has read all before it; what another appends still wants to be read.
        wanted = None if claim is not None else at.now if at.due is None else min(at.due, at.now)
        for place, (line, (_, each)) in enumerate(zip(lines, links, strict=True), at.head):
            db.tell(say.ADD_LINE, self.name, run, place, line, bytes.fromhex(each))
        end = (at.head + len(lines), bytes.fromhex(links[-1][1]), wanted)
        if changes is None:
            db.tell(say.APPENDED, *end, self.name, run)
        else:
            row = changes.run
            values = (row.agent, row.status, row.updated_at, row.waiting, row.turns, row.workflow, row.error)
            db.tell(say.MOVED, *end, *values, self.name, run)
            if row.started_at != at.started_at:
                db.tell(say.STARTED, row.started_at, self.name, run)
            self._change(db, changes)
        return links[-1][1]

    def holds(self, db: Connection, run: str, place: int, hash_: str) -> bool:
        """Whether the log has that very line at a place: what a writer asks whose commit was never answered."""
        self._settle(db, run)
        found = db.execute(say.HASH_AT, self.name, run, place)
        return bool(found) and bytes(found[0][0]).hex() == hash_

    def read(self, db: Connection, run: str, after: int) -> list[bytes]:
        """Lines from a place on."""
        return [bytes(line) for (line,) in db.execute(say.LINES, self.name, run, after)]

    def head(self, db: Connection, run: str) -> int:
        """How many lines a log has."""
        found = db.execute(say.HEAD, self.name, run)
        return int(found[0][0]) if found else 0

    def links(self, db: Connection, run: str) -> list[tuple[str, str]]:
        """The digests and hashes of a log's lines."""
        return [
            (line_digest(bytes(line)) if line is not None else bytes(digest).hex(), bytes(hash_).hex())
            for line, digest, hash_ in db.execute(say.LINKS, self.name, run)
        ]

    def claim(self, db: Connection, run: str, worker: str, ttl_ms: int) -> Claim:
        """Take a run."""
        at = self._place(db, run)
        if at.holder is not None and at.now < at.until:
            raise Conflict(f"run {run!r} is held by {at.holder!r}; wait for it", winner=at.holder)
        made = Claim(run, worker, at.epoch + 1, at.now + ttl_ms, at.now, at.head)
        db.tell(say.TAKEN, made.epoch, worker, made.until, self.name, run)
        return made

    def held_by(self, db: Connection, run: str) -> tuple[str, int] | None:
        """Who holds a run, and under which epoch: what a worker asks whose claim was never answered."""
        self._settle(db, run)
        found = db.execute(say.HEAD, self.name, run)
        return (found[0][3], int(found[0][2])) if found and found[0][3] is not None else None

    def renew(self, db: Connection, claim: Claim, ttl_ms: int) -> Claim:
        """Hold a run for longer."""
        now = self._held(db, claim.run, claim).now
        db.tell(say.RENEWED, now + ttl_ms, self.name, claim.run)
        return msgspec.structs.replace(claim, until=now + ttl_ms, at=now)

    def release(self, db: Connection, claim: Claim, due: int | None) -> bool:
        """Give a run back; whether somebody may have to look at it at some time."""
        try:
            at = self._held(db, claim.run, claim)
        except Conflict:
            return False
        times = [time for time in (at.due, due) if time is not None]
        db.tell(say.RELEASED, min(times, default=None), self.name, claim.run)
        return bool(times)

    def due(self, db: Connection, limit: int) -> list[str]:
        """Runs that are due."""
        now = db.now()
        return [run for _, run in db.execute(say.DUE, self.name, now, self.name, now, limit)]

    def next_due(self, db: Connection) -> tuple[int | None, int]:
        """When the next run is due, and the time now."""
        found = db.execute(say.NEXT_DUE, self.name, self.name)
        return (None if not found or found[0][0] is None else int(found[0][0])), db.now()

    def runs(self, db: Connection, query: Query) -> list[RunRow]:
        """Rows of runs."""
        asked = {"run": query.id or query.run, "status": query.state, "agent": query.agent}
        found = self._page(db, ("runs", say.RUN_COLUMNS), asked, ("started_at", "run"), query)
        return [RunRow(*row) for row in found]

    def requests(self, db: Connection, query: Query) -> list[RequestRow]:
        """Rows of requests."""
        asked = {name: getattr(query, name) for name in ("id", "run", "state", "agent", "tool", "kind")}
        found = self._page(db, ("requests", say.REQUEST_COLUMNS), asked, ("asked_at", "id"), query)
        return [RequestRow(*row) for row in found]

    def grants(self, db: Connection, query: Query) -> list[GrantRow]:
        """Rows of grants."""
        revoked = None if query.state is None else int(query.state == "revoked")
        asked = {"id": query.id, "run": query.run, "agent": query.agent, "tool": query.tool, "revoked": revoked}
        found = self._page(db, ("grants", say.GRANT_COLUMNS), asked, ("0", "run || '/' || id"), query)
        return [GrantRow(*row[:-1], revoked=bool(row[-1])) for row in found]

    def outbox(self, db: Connection, limit: int, done: int | None) -> list[Notice]:
        """What is to be told."""
        if done is not None:
            db.tell(say.TOLD, self.name, done)
        found = db.execute(say.TO_TELL, self.name, limit)
        return [Notice(topic, run, msgspec.json.decode(about), number) for topic, run, about, number in found]

    def erase(self, db: Connection, run: str) -> None:
        """Forget what a run says; the digests of its lines stay."""
        at = self._known(db, run)
        if at is None:
            return
        if at.holder is not None and at.now < at.until:
            raise Conflict(f"run {run!r} is held by {at.holder!r}; cancel it first", winner=at.holder)
        for place, line in db.execute(say.ALL_LINES, self.name, run):
            db.tell(say.ERASE_LINE, bytes.fromhex(line_digest(bytes(line))), self.name, run, place)
        for statement in say.ERASE:
            db.tell(statement, self.name, run)

    def _settle(self, db: Connection, run: str) -> None:
        """Wait until nobody is at work on a run: the commit whose answer got lost may still be under way."""
        if self._dialect.locked:
            self._place(db, run)

    def _known(self, db: Connection, run: str) -> Place | None:
        """Where a run is, for whoever is about to change that; None for one that is not known."""
        found = db.known(self.name, run)
        if not found:
            return None
        head, hash_, epoch, holder, until, due, status, started_at, time = found[0]
        chained = GENESIS if hash_ is None else bytes(hash_).hex()
        return Place(head, chained, epoch, holder, until or 0, due, status, started_at, db.now(time))

    def _place(self, db: Connection, run: str) -> Place:
        """Where a run is; one that is not known begins here."""
        at = self._known(db, run)
        if at is None:
            db.tell(say.NEW_RUN, self.name, run)
            at = self._known(db, run)
            assert at is not None
        return at

    def _held(self, db: Connection, run: str, claim: Claim) -> Place:
        """Where a run is that is still held under this claim, or `Conflict`."""
        at = self._known(db, run)
        if at is None or at.holder is None:
            raise Conflict(f"run {run!r} is not held under this claim: it was given back; claim the run again")
        if (claim.run, claim.worker, claim.epoch) != (run, at.holder, at.epoch):
            raise Conflict(
                f"run {run!r} is held by {at.holder!r} under epoch {at.epoch}, not by {claim.worker!r} under "
                f"epoch {claim.epoch}; stop, and leave the run to them",
                winner=at.holder,
            )
        return at

    def _change(self, db: Connection, changes: Changes) -> None:
        for closing in changes.closed:
            db.tell(say.CLOSE, closing.state, closing.at, closing.by, self.name, closing.id)
        for row in changes.opened:
            db.tell(say.OPEN, self.name, *msgspec.structs.astuple(row))
        for each in changes.grants:
            body = (each.tool, each.agent, each.body, each.uses, int(each.revoked))
            db.tell(say.GRANT, self.name, each.run, each.id, *body)
        for name in changes.revoked:
            db.tell(say.REVOKE, self.name, changes.run.run, name)
        for notice in changes.notices:
            db.tell(say.TELL, self.name, notice.run, notice.topic, msgspec.json.encode(notice.about).decode())

    def _page(
        self, db: Connection, what: tuple[str, str], asked: dict[str, Any], key: tuple[str, str], query: Query
    ) -> list[Any]:
        """A page of a table. Only names of ours stand in the statement; what is asked for is passed beside it."""
        (table, columns), (time, name) = what, key
        wanted = {column: value for column, value in asked.items() if value is not None}
        clauses, values = ["tenant = ?", *(f"{column} = ?" for column in wanted)], [self.name, *wanted.values()]
        compare, order = ("<", "DESC") if query.newest else (">", "ASC")
        if query.after is not None:
            clauses.append(f"({time}, {name}) {compare} (?, ?)" if time != "0" else f"{name} {compare} ?")
            values += query.after if time != "0" else query.after[1:]
        ordered = f"{time} {order}, {name} {order}" if time != "0" else f"{name} {order}"
        if table == "runs":
            clauses.append("head > 0")
        statement = f"SELECT {columns} FROM {table} WHERE {' AND '.join(clauses)} ORDER BY {ordered} LIMIT ?"
        return db.execute(statement, *values, max(query.limit, 0))
