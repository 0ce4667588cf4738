"""Write a checkpoint or an export of a store: its runs one after the other, then what is signed of them.

Each line is verified with the journal's own keys on the way. What does not verify is not signed: of such a run the
lines before the first bad one are, with the reason, so that a checkpoint never makes good what somebody altered.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, BinaryIO

from ...core.errors import LogDamaged
from ...core.seal import Chain
from ...directory.book import NAME as DIRECTORY
from ...engine.run.open_run import chain_of, clock_ms
from ...journal.base import RESERVED, Store
from ...journal.rows import Query
from .chain import PublicChain
from .public_keys import LineSignature
from .records import FileRow, FileStart, LogLine, RunHead, Statement, What, encode
from .secret_lines import PasswordLines, SecretLines
from .signing import Signer


@dataclass
class SignedFile:
    """Says what was written and signed, and which runs are damaged in the store.

    >>> SignedFile("checkpoint").ok
    True
    """

    what: What
    statement: Statement | None = None
    erased: int = 0
    withheld: int = 0
    damaged: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        """Return whether every run of the store is as it was written."""
        return not self.damaged


async def names_of(store: Store) -> list[str]:
    """Return every run of which anything is kept, in order."""
    every: Any = getattr(store, "every_run", None)
    if every is not None:
        return sorted(await every())
    found = [name for name in (DIRECTORY,) if await store.hashes(name)]
    after: tuple[int, str] | None = None
    while page := await store.runs(Query(after=after, limit=500)):
        found += [row.run for row in page]
        after = (page[-1].started_at, page[-1].run)
    return sorted(found)


class FileWriter:
    """Writes one file; `secret` says that lines which hold secrets are written as well."""

    def __init__(self, store: Store, signer: Signer, out: BinaryIO, what: What, *, secret: bool = False) -> None:
        self._store = store
        self._signer = signer
        self._out = out
        self._what: What = what
        self._secret = secret
        self._tenant: str = getattr(store, "tenant", "default")
        self._identity = ""
        self._heads = sha256()
        self._runs = 0
        self._lines = 0
        self.written = SignedFile(what)

    async def write(self, follows: str = "") -> SignedFile:
        """Write the whole file."""
        runs = await names_of(self._store)
        self._identity = getattr(self._store, "identity", "")  # as it was seen by that look
        self._put(FileStart(self._what, self._tenant, self._identity))
        for run in runs:
            await self._run(run)
        made = Statement(
            self._what,
            self._tenant,
            self._identity,
            clock_ms(),
            self._runs,
            self._lines,
            self._heads.hexdigest(),
            self._signer.name,
            follows,
        )
        message = self._put(made)
        keys = tuple(self._signer.public.text.splitlines())
        self._put(LineSignature(b64encode(self._signer.sign(message)).decode(), keys))
        self.written.statement = made
        return self.written

    def _hides(self, run: str) -> SecretLines | PasswordLines | None:
        """Return what says which lines of a log are withheld; None for all are shown."""
        if run == DIRECTORY:
            return PasswordLines()
        return None if self._secret or run.startswith(RESERVED) else SecretLines()  # no tool writes in those

    def _put(self, row: FileRow | LineSignature) -> bytes:
        raw = encode(row)
        self._out.write(raw + b"\n")
        return raw

    async def _run(self, run: str) -> None:
        taken = _Taken(self._store, run)
        if self._what == "checkpoint":
            await taken.links()
        else:
            await taken.lines(self._hides(run))
        if not taken.known:
            return
        for line in taken.rows:
            self._put(line)
        chain, damaged = taken.chain, taken.damaged
        withheld = sum(line.withheld is not None for line in taken.rows)
        head = RunHead(run, self._runs, chain.count, chain.head.hex(), taken.erased, withheld, damaged)
        self._heads.update(self._put(head) + b"\n")
        self._runs += 1
        self._lines += chain.count
        self.written.erased += taken.erased
        self.written.withheld += withheld
        if damaged:
            self.written.damaged.append(f"run {run}: line {chain.count} {damaged}")


class _Taken:
    """Holds one run as it stood at one moment, as far as its seals verify."""

    def __init__(self, store: Store, run: str) -> None:
        self._store = store
        self._run = run
        self._sealed: Chain = chain_of(store, run)
        self.chain = PublicChain(getattr(store, "tenant", "default"), run)
        self.rows: list[LogLine] = []
        self.damaged = ""
        self.erased = False
        self.known = True

    async def _head(self) -> int:
        try:
            return await self._store.head(self._run)
        except LogDamaged as damaged:
            self.damaged = damaged.why
            return 0

    async def links(self) -> list[tuple[str, str]]:
        """Follow the digests and seals of the lines; return those that verify."""
        head = await self._head()
        found = await self._store.hashes(self._run)
        good: list[tuple[str, str]] = []
        for digest, seal in found:
            if not self._sealed.passes(digest, seal):
                self.damaged = "is not the line that was written there"
                break
            self.chain.add(bytes.fromhex(digest), seal)
            good.append((digest, seal))
        if len(good) < head and not self.damaged:
            self.damaged = "is not there: the store counts others than it has"
        self.known = bool(found or head or self.damaged)
        return good

    async def lines(self, hide: SecretLines | PasswordLines | None) -> None:
        """Follow the lines, and make their rows; `hide` says which of them are withheld."""
        try:
            head = await self._store.head(self._run)
            lines = await self._store.read(self._run)
        except LogDamaged:
            lines = []
            head = 1
        if not lines or len(lines) < head:
            await self._digests()
            return
        for line in lines:
            try:
                body = self._sealed.open(line)
                text = body.decode()
            except (LogDamaged, UnicodeError) as error:
                self.damaged = error.why if isinstance(error, LogDamaged) else "is no text"
                return
            hidden = hide is not None and hide.holds(body)
            self._add(sha256(body).digest(), line[len(body) + 1 :].decode(), None if hidden else text)

    def _add(self, digest: bytes, seal: str, text: str | None) -> None:
        place = self.chain.count
        self.chain.add(digest, seal)
        withheld = digest.hex() if text is None and not self.erased else None
        gone = digest.hex() if text is None and self.erased else None
        self.rows.append(LogLine(self._run, place, self.chain.head.hex(), seal, text, gone, withheld))

    async def _digests(self) -> None:
        """Make the rows of a run of which only digests can be had: it was erased, or cannot be read."""
        found = await self._store.runs(Query(run=self._run))
        erased = bool(found) and found[0].status == "erased"
        good = await self.links()
        self.chain = PublicChain(getattr(self._store, "tenant", "default"), self._run)
        self.erased = erased and bool(good)
        if good and not erased and not self.damaged:
            self.damaged = "and those before it cannot be read, only their digests"
        for digest, seal in good:
            self._add(bytes.fromhex(digest), seal, None)
