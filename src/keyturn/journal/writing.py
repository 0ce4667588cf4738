"""One append as a job of a store's thread: what it does in its transaction, and how it finds out that it was done."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from .base import Claim, Lease
from .commit_effects import CommitEffects, of_append
from .due_feed import MadeDue
from .generation import Origin
from .lease_sql import DueWhen
from .rows import Changes
from .sealing import plain
from .sql import Tenant
from .store_thread import StoreConnection
from .waiters import DUE


class NewLines(NamedTuple):
    """Holds the lines to append, where, and under which claim."""

    run: str
    expected: int
    lines: list[bytes]
    claim: Claim | None

    @property
    def head(self) -> int:
        """Return how many lines the log has with them."""
        return self.expected + len(self.lines)


class Writing:
    """Writes lines for one tenant; `claim` is the lease that was taken along, once they are written."""

    def __init__(
        self, mine: Tenant, origin: Origin, lines: NewLines, changes: Changes | None, lease: Lease | None
    ) -> None:
        self.claim: Claim | None = None
        self._mine = mine
        self._origin, self._store = origin, origin.store
        self._lines, self._lease = lines, lease
        self._changes = None if changes is None else plain(changes)
        self._effects = of_append(mine.name, lines.run, lines.claim, self._changes, lease)
        self._wrote = b""

    def do(self, db: StoreConnection) -> CommitEffects | None:
        """Append, or raise what refuses it."""
        lines, changes = self._lines, self._changes
        if changes is not None and any(each.reach for each in changes.grants):  # named by the store's id
            self._origin.check_store(self._store)
        made = self._mine.append(db, *lines, changes, self._lease)
        if not lines.lines:
            return None
        self._wrote, self.claim = lines.lines[-1], made.claim
        effects, tenant = self._effects, self._mine.name
        wakes = [*effects.wakes, (tenant, DUE)] if made.becomes_due else effects.wakes
        named = MadeDue(tenant, lines.run, str(lines.head), made.priority)
        due = [named] if made.becomes_due is DueWhen.NOW else []
        placed = [(tenant, made.session, lines.run)] if made.session else []
        return replace(effects, wakes=wakes, placed=placed, due=due)

    def done(self, db: StoreConnection) -> tuple[bool, Any]:
        """Return whether it was done by a commit that was never answered, and with it what went along."""
        run, expected, lines, _ = self._lines
        there = bool(self._wrote) and self._mine.holds(db, run, expected + len(lines) - 1, self._wrote)
        ends = self._lease is not None and self._lease.ends
        wakes = [*self._effects.wakes, (self._mine.name, DUE)] if ends else self._effects.wakes
        return there, CommitEffects(wakes)
