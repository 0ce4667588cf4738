"""Put on record who reads the arguments of calls, where the directory's setting `record_reads` says so.

The record is a log of its own for each month, beside the directory's: nobody folds it, so it may grow, and the
directory stays short. What is written before anything is shown is who, what and when, never what it says. A person who
opens the same request, log or search again within the hour adds nothing, and those who read at the same moment are one
append.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from random import uniform
from typing import Any

import msgspec

from ..core.encodable import moment
from ..core.errors import Conflict, LogDamaged
from ..core.seal import Chain, body_of
from ..journal.base import Journal, LostRace, Store
from ..support.keys import ring
from .login import By, author_of
from .people import People
from .read_lines import READS, How, Read, read_of
from .settings import RECORD_READS

_AGAIN_MS = 3_600_000
_REMEMBERED = 10_000
_A_LINE = 500  # requests that one line names
_LEASE_MS = 2_000
_PATIENCE = 10.0
_PAUSES = (0.01, 0.1)


class Reads:
    """Writes who reads, and tells of it.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> journal = MemoryJournal()
    >>> asyncio.run(Reads(journal, People(journal)).note("ada", "request", ["5e1f"]))
    False
    """

    def __init__(self, store: Store, people: People) -> None:
        self._store = store
        self._people = people
        self._seen: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._pending: list[tuple[Read, asyncio.Future[None]]] = []
        self._writing = asyncio.Lock()

    async def note(
        self, by: By | None, how: How, requests: Iterable[str] = (), what: str = "", *, always: bool = False
    ) -> bool:
        """Write that somebody is about to read; return whether there was anything to write.

        Raises `Conflict` where it cannot be written: then nothing is to be shown.
        """
        if not always and (await self._people.directory()).settings.get(RECORD_READS) is not True:
            return False
        named, now = list(requests), await self._store.now()
        who = None if by is None else author_of(by)
        name = "" if who is None else who.id
        seen = named or [f"{how} {what}"]  # the same again within the hour adds nothing, whatever it is of
        new = [each for each in seen if always or self._is_new(name, each, now)]
        if not new:
            return False
        written = tuple(new) if named else ()
        for start in range(0, max(len(written), 1), _A_LINE):
            await self._write(Read(now, who, how, written[start : start + _A_LINE], what))
        for each in new:
            self._seen[name, each] = now
            self._seen.move_to_end((name, each))
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return True

    def _is_new(self, person: str, request: str, now: int) -> bool:
        before = self._seen.get((person, request))
        return before is None or now >= before + _AGAIN_MS

    async def _write(self, read: Read) -> None:
        """Write one line; whoever is first writes those that came meanwhile along with theirs."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((read, written))
        async with self._writing:
            await asyncio.sleep(0)  # those who came at the same moment
            if not written.done():
                await self._write_all()
        await written

    async def _write_all(self) -> None:
        batch, self._pending = self._pending, []
        refused = Conflict("it could not be put on record who reads this, so it is not shown; try again")
        try:
            good = await self._appended([read for read, _ in batch])
        except BaseException:
            _tell_all(batch, refused)
            raise
        _tell_all(batch, None if good else refused)

    async def _appended(self, reads: Sequence[Read]) -> bool:
        worker = f"reads-{secrets.token_hex(4)}"
        name = f"{READS}{moment(reads[0].at):%Y-%m}"
        ends = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            try:
                claim = await self._store.claim(name, worker, _LEASE_MS)
            except Conflict:
                claim = None
            if claim is not None:
                try:
                    lines = await self._next_lines(name, reads)
                    await self._store.append(name, lines[0], lines[1], claim)
                    return True
                except (LostRace, Conflict):  # it took longer than the lease
                    pass
                finally:
                    await self._store.release(claim)
            if asyncio.get_running_loop().time() >= ends:
                return False
            await asyncio.sleep(uniform(*_PAUSES))

    async def _next_lines(self, name: str, reads: Sequence[Read]) -> tuple[int, list[bytes]]:
        """Return how many lines there are, and the next ones, sealed after the last; the rest is not read."""
        head = await self._store.head(name)
        chain, at = chain_in(self._store, name), 0
        if head:
            [last] = await self._store.read(name, head - 1)
            body = body_of(last)
            chain.last = last[len(body) + 1 :]
            chain.count = head
            at = read_of(body).at
        lines = list[bytes]()
        for read in reads:
            at = max(at, read.at)
            lines.append(chain.seal(msgspec.json.encode(msgspec.structs.replace(read, at=at))))
            chain.kept(lines[-1])
        return head, lines

    async def entries(self, names: Iterable[str]) -> list[Read]:
        """Return what these logs say, the oldest first; raise `LogDamaged` for lines that were altered."""
        found = list[Read]()
        for name in sorted(names):
            chain = chain_in(self._store, name)
            for place, line in enumerate(await self._store.read(name)):
                try:
                    found.append(read_of(chain.open(line)))
                except ValueError:
                    raise LogDamaged(name, place, "cannot be read") from None
        return found


def chain_in(store: Journal, name: str) -> Chain:
    """Begin the chain of a log in a store."""
    return Chain(getattr(store, "keys", ring), getattr(store, "tenant", "default"), name)


def _tell_all(batch: Sequence[tuple[Any, asyncio.Future[None]]], refused: Conflict | None) -> None:
    for _, written in batch:
        if written.done():
            continue
        if refused is None:
            written.set_result(None)
        else:
            written.set_exception(refused)
            written.exception()  # whoever waits for it gets it all the same; nobody need
