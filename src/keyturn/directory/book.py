"""Keep a directory in a journal: a log under a reserved name, sealed, appended and verified as those of runs are.

It is no run: nobody moves it, so it is written under a short lease, which leaves it due for nobody. A journal needs to
know nothing of it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from random import uniform
from typing import Any

from msgspec import UNSET, MsgspecError

from ..core.errors import Conflict, LogDamaged
from ..core.people import Decider
from ..core.seal import Chain
from ..journal.base import Journal, LostRace, is_other_store
from ..support.keys import ring
from .decide import Events
from .events import Entry, Once, Restored, read_entry, written
from .fold import fold
from .state import OURS, Directory

NAME = "@directory"
#: Decides a change of the directory as it stands, at a time.
Decide = Callable[[Directory, int], Events]
# A change takes milliseconds: whoever is killed in one keeps the others out for no longer than this.
_LEASE_MS = 2_000
_PATIENCE = 30.0  # how long others are waited for, in seconds
_PAUSES = (0.01, 0.25)


class Book:
    """Reads and writes the directory of one tenant's journal; what was verified once is not verified again."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        # The id that the store had when its entries were read: after a restore it has fewer, and other ones.
        self._store = ""
        self._forget()
        self._reading = asyncio.Lock()
        self._changing = asyncio.Lock()  # those of one process stand in a line, and race only with others

    def _forget(self) -> None:
        self._entries: list[Entry] = []
        self._last = b""
        self._chain = self._new_chain()
        self._now = Directory()

    def _new_chain(self) -> Chain:
        return Chain(getattr(self._journal, "keys", ring), getattr(self._journal, "tenant", "default"), NAME)

    async def read(self) -> Directory:
        """Return the directory as it is now; do not change it."""
        async with self._reading:
            await self._catch_up()
            return self._now

    async def at(self, place: int) -> Directory:
        """Return the directory as it was after so many entries."""
        now = await self.read()
        if place == now.place:
            return now
        if not 0 <= place < now.place:
            raise LogDamaged(NAME, now.place, f"is not there, and a decision was judged by the first {place}")
        return fold(self._entries[:place])

    async def entries(self) -> list[Entry]:
        """Return all entries, oldest first."""
        await self.read()
        return list(self._entries)

    async def _catch_up(self) -> None:
        """Read and verify what was appended since; a log that was cut or changed behind us is damaged."""
        known = len(self._entries)
        lines = await self._journal.read(NAME, max(known - 1, 0))
        if known and lines[:1] != [self._last] and await is_other_store(self._journal, self._store):
            self._forget()
            known, lines = 0, await self._journal.read(NAME)
        if not known and not lines and await self._journal.head(NAME):
            raise LogDamaged(NAME, 0, "is missing: a directory is never erased")
        if known:
            if not lines or lines[0] != self._last:
                raise LogDamaged(NAME, known - 1, "is not the line that was there before")
            lines = lines[1:]
        self._store = getattr(self._journal, "identity", "")
        self._take(lines)

    def _take(self, lines: Sequence[bytes]) -> None:
        """Verify lines, read them and fold them, all or none."""
        if not lines:
            return
        chain = self._chain.copy()
        bodies = [chain.open(line) for line in lines]
        read = list[Entry]()
        try:
            for body in bodies:
                read.append(read_entry(body))  # how far it came says where it is damaged
            now = fold(read, self._now)
        except (MsgspecError, ValueError, LookupError) as error:
            place = len(self._entries) + len(read)
            raise LogDamaged(NAME, place, f"cannot be read ({type(error).__name__})") from None
        self._chain = chain
        self._entries += read
        self._last = lines[-1]
        self._now = now

    async def change(self, by: Decider, decide: Decide, once: Once | None = None) -> Directory:
        """Decide a change against the directory as it stands, and append it; again if somebody was faster."""
        worker = f"directory-{secrets.token_hex(4)}"
        ends = asyncio.get_running_loop().time() + _PATIENCE
        async with self._changing:
            while (changed := await self._tried(worker, by, decide, once)) is None:
                if asyncio.get_running_loop().time() >= ends:
                    raise Conflict("the directory was changed by others all the time; try again")
                await asyncio.sleep(uniform(*_PAUSES))
        return changed

    async def _tried(self, worker: str, by: Decider, decide: Decide, once: Once | None) -> Directory | None:
        """Make a change; return None where another process is at it or was faster."""
        await self.read()  # what cannot be read is not written to
        try:
            claim = await self._journal.claim(NAME, worker, _LEASE_MS)
        except Conflict:
            return None
        try:
            return await self._append(claim, by, decide, once)
        except LostRace:
            return None
        finally:
            await self._journal.release(claim)

    async def restored(self, why: str, nonce: str = "") -> None:
        """Record once that the store was brought back from a copy; a directory that nobody began needs no word of it.

        No lease is given while that is not settled, so whoever finds the log due lets it be.
        """
        while (now := await self.read()).place and not (nonce and now.restored == nonce):
            at = max(await self._store_time(), now.at)
            line = self._chain.copy().seal(written(Entry(at, Decider(OURS), [Restored(why, nonce)])))
            try:
                await self._journal.append(NAME, len(self._entries), [line])
            except LostRace:
                continue
            return

    async def _store_time(self) -> int:
        says: Any = getattr(self._journal, "now", None)
        return 0 if says is None else await says()

    async def _append(self, claim: Any, by: Decider, decide: Decide, once: Once | None) -> Directory:
        now = await self.read()
        at = max(claim.at, now.at)
        events = decide(now, at)
        if events:
            async with self._reading:
                line = self._chain.copy().seal(written(Entry(at, by, events, once=once or UNSET)))
                try:
                    await self._journal.append(NAME, len(self._entries), [line], claim)
                except Conflict as late:  # it took longer than the lease, and somebody else has it
                    raise LostRace(str(late)) from None
                self._take([line])
        return self._now
