"""The audit of a store: checkpoints, verification, search and export behind one object, `App.audit`.

Nothing is written to the store, but for who reads it where that is put on record. The checker of the laws
(`checker.py`) is apart from this: here it is asked whether the record is the one that was written, there whether what
it says is lawful.
"""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypedDict, Unpack

import msgspec

from ..core.codec import Log
from ..core.errors import LogDamaged, RunMissing, StateRejected, UserError
from ..directory.finding import find
from ..directory.login import By, names
from ..directory.people import People
from ..directory.read_lines import READS, Read
from ..directory.reads import Reads
from ..engine.run.log_cache import log_in
from ..engine.run.open_run import clock_ms
from ..journal import opened as opened_journal
from ..journal.base import RESERVED, Store
from ..journal.rows import Query
from ..support.whole_files import replaced
from .decisions.agentack import POLICY, trace_of
from .decisions.by_time import search_by_time
from .decisions.entry import AuditEntry
from .decisions.search import FoundEntries, SearchTerms, entries, search, search_page
from .decisions.table import DecisionTable
from .evidence.public_keys import PublicKeys
from .evidence.report import VerifyReport
from .evidence.signing import Signer, key_file
from .evidence.verify import opened, read_marks, verify_file
from .evidence.verify_store import verify_store
from .evidence.write import FileWriter, SignedFile, names_of

Format = Literal["jsonl", "csv", "agentack"]
FORMATS: tuple[Format, ...] = ("jsonl", "csv", "agentack")
_PLAIN = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")
_LONGEST_WORDS = 500
Files = str | Path | Sequence[str | Path]


class Terms(TypedDict, total=False):
    """Says what is searched for: all that is given must fit."""

    person: str | None
    tool: str | None
    agent: str | None
    run: str | None
    verdict: str | None
    between: tuple[datetime | None, datetime | None]
    text: str | None
    decisions: bool


class Audit:
    """Signs checkpoints of a store, verifies it, searches its decisions and exports them.

    `store` is a journal or its URL; `key` is the file of the signing key, by default the one that `KEYTURN_AUDIT_KEY`
    names, else the user's own. The file is made when something is signed first. `trusted_keys` are the ids of people's
    keys that somebody outside vouches for; their other keys go back to them, else to the first that was confirmed.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(Audit(MemoryJournal()).verify()).ok
    True
    """

    def __init__(self, store: Store | str, *, key: str | Path | None = None, trusted_keys: Iterable[str] = ()) -> None:
        self._store = opened_journal(store) if isinstance(store, str) else store
        self._key = None if key is None else Path(key)
        self._trusted_keys = names(trusted_keys, "trusted_keys")
        self._people = People(self._store)
        self._reads = Reads(self._store, self._people)

    async def checkpoint(self, out: str | Path, *, heads: Files = ()) -> SignedFile:
        """Sign how far every run has come, into a file to be kept elsewhere.

        `heads` are checkpoints made before: what they signed must still be there, or nothing is signed.
        """
        follows = await self._unaltered(heads)
        with replaced(Path(out)) as stream:
            return await FileWriter(self._store, self._signer(), stream, "checkpoint").write(follows)

    async def verify(self, *, heads: Files = (), public: str | Path | None = None) -> VerifyReport:
        """Verify every line of the store with its keys, what people signed, and checkpoints kept elsewhere."""
        named = _paths(heads)
        marks = read_marks(named, self._trusted(public)) if named else None
        return await verify_store(self._store, marks, self._trusted_keys)

    @staticmethod
    def verify_file(
        source: str | Path | BinaryIO, *, public: str | Path, heads: Files = (), trusted_keys: Iterable[str] = ()
    ) -> VerifyReport:
        """Verify an export or a checkpoint with public keys alone; no store and no other key is needed.

        What people signed is verified as well, by their keys in the export; `trusted_keys` are those of them that
        somebody outside vouches for, by default the first that was confirmed.
        """
        given = Path(source) if isinstance(source, str) else source
        return verify_file(given, read_public(Path(public)), _paths(heads), names(trusted_keys, "trusted_keys"))

    async def search(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        newest: bool = False,
        by: By | None = None,
        **terms: Unpack[Terms],
    ) -> list[AuditEntry]:
        """Return who decided what, when and on which bytes, the oldest run first; `after` is the key of an entry.

        With `newest`, the newest run and its last lines first.

        `person` is the id of a user in any case, or a display name that one user has.
        `text` is looked for in everything that an entry says. Secrets are redacted before. `by` says who reads it,
        which is put on record where the directory says so.
        """
        if by is not None:
            await self._reads.note(by, "search", what=_words(terms))
        return await search(self._store, await self._wanted(terms), after, limit, newest=newest)

    async def search_page(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        newest: bool = False,
        seconds: float | None = None,
        looks: int | None = None,
        by: By | None = None,
        **terms: Unpack[Terms],
    ) -> FoundEntries:
        """Return a page of the same, and where the next one begins.

        It ends early after so many seconds, or `looks` at runs and lines of logs.
        """
        if by is not None:
            await self._reads.note(by, "search", what=_words(terms))
        more: Any = {"newest": newest, "seconds": seconds, "looks": looks}
        return await search_page(self._store, await self._wanted(terms), after, limit, **more)

    async def latest(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        seconds: float | None = None,
        looks: int | None = None,
        by: By | None = None,
        **terms: Unpack[Terms],
    ) -> FoundEntries:
        """Return a page of the same by time, the newest decision first, whatever run it is of.

        `decisions=True` leaves out what a call passed before its decision. The page ends early after so many seconds,
        or `looks` at lines of logs.
        """
        if by is not None:
            await self._reads.note(by, "search", what=_words(terms))
        wanted = await self._wanted(terms)
        return await search_by_time(self._store, wanted, after, limit, seconds=seconds, looks=looks)

    async def reads(self, *, person: str | None = None, request: str | None = None) -> list[Read]:
        """Return who read the arguments of calls, the oldest first: what is on record of it."""
        logs = [name for name in await names_of(self._store) if name.startswith(READS)]
        found = await self._reads.entries(logs)
        return [
            read
            for read in found
            if (person is None or (read.by is not None and read.by.id == person))
            and (request is None or request in read.requests)
        ]

    async def export(
        self,
        out: str | Path,
        *,
        format: Format = "jsonl",
        secrets: bool = False,
        heads: Files = (),
        by: By | None = None,
        zone: tzinfo | None = None,
        **terms: Unpack[Terms],
    ) -> SignedFile:
        """Export the record: whole and verifiable as JSONL, one row a decision as CSV, or as traces for `agentack`.

        Lines that hold what a tool marked as secret are withheld from a JSONL unless `secrets`; their digests stand
        there. `terms` choose decisions for a CSV, and `run` one run for a trace; a JSONL is always whole. For
        `agentack`, `out` is a folder. `by` says who exports it, which is put on record where the directory says so; an
        export with secrets always is. `zone` adds a column to a CSV: each time by the clocks of that time zone.
        """
        if format not in FORMATS:
            raise UserError(f"format is one of {', '.join(FORMATS)}, and not {format!r}")
        if format != "jsonl" and (secrets or heads):
            raise UserError("secrets= and heads= are for jsonl: other formats show no secrets and are not signed")
        given = [name for name, value in terms.items() if value is not None and value is not False]
        if format == "jsonl" and given:
            raise UserError(f"a jsonl export is whole; leave out {', '.join(given)}, or export a csv")
        if secrets or by is not None:
            await self._reads.note(by, "secrets" if secrets else "export", what=_words(terms), always=secrets)
        if format == "csv":
            return await self._table(Path(out), (await self._wanted(terms)).checked(), zone)
        if format == "agentack":
            if set(given) - {"run"}:
                raise UserError("a trace is of a whole run: choose by run= alone")
            return await self._traces(Path(out), terms.get("run"))
        follows = await self._unaltered(heads)
        with replaced(Path(out)) as stream:
            return await FileWriter(self._store, self._signer(), stream, "export", secret=secrets).write(follows)

    # ---------------------------------------------------------------------------------------------------------------

    async def _wanted(self, terms: Terms) -> SearchTerms:
        """Return what is searched for: a person by id in any case or by display name, who may have left."""
        wanted = SearchTerms(**terms).checked()
        if wanted.person is None:
            return wanted
        known = (await self._people.directory()).people
        found = wanted.person if wanted.person in known else find(known.values(), wanted.person)
        return wanted._replace(person=found)

    def _signer(self) -> Signer:
        return Signer.of(key_file(self._key), clock_ms())

    def _trusted(self, public: str | Path | None) -> PublicKeys:
        return own_keys(self._key) if public is None else read_public(Path(public))

    async def _unaltered(self, heads: Files) -> str:
        """Return the digest of the newest statement among checkpoints, if what they signed is still there."""
        named = _paths(heads)
        if not named:
            return ""
        keys = self._trusted(None)
        report = await verify_store(self._store, read_marks(named, keys))
        if not report.ok:
            fault = report.faults[0]
            raise LogDamaged(fault.run, fault.line or 0, f"is not what was signed before ({fault.what})")
        known = [verify_file(path, keys) for path in named]
        return max(known, key=lambda each: each.at or 0).statement

    async def _table(self, out: Path, wanted: SearchTerms, zone: tzinfo | None) -> SignedFile:
        made = SignedFile("export")
        with replaced(out) as stream:
            text = io.TextIOWrapper(stream, "utf-8", newline="")
            table = DecisionTable(text, zone)
            table.begin()
            async for entry in entries(self._store, wanted):
                table.add(entry)
                if entry.what == "damage":
                    made.damaged.append(f"run {entry.run}: line {entry.line}: {entry.note}")
            text.flush()
            text.detach()
        return made

    async def _traces(self, out: Path, run: str | None) -> SignedFile:
        made = SignedFile("export")
        runs = (
            [run]
            if run is not None
            else [each for each in await names_of(self._store) if not each.startswith(RESERVED)]
        )
        with _folder(out):
            out.mkdir(exist_ok=True, mode=0o700)
        (out / "policy.toml").write_text(POLICY)
        for name in runs:
            try:
                log = await log_in(self._store, name)
            except (LogDamaged, StateRejected) as error:
                made.damaged.append(f"run {name}: {error}")
                continue
            if not log.steps and run is not None:
                raise RunMissing(name)
            if log.steps:
                with replaced(out / f"{_file_name(name)}.jsonl") as stream:
                    await self._trace(name, log, stream)
        return made

    async def _trace(self, run: str, log: Log, stream: BinaryIO) -> None:
        rows = [row async for row in _requests(self._store, run)]
        shown = {row.id: row.params for row in rows if row.state != "damaged" and row.kind == "approval"}
        shown = {row.id: shown[row.id] for row in rows if row.id in shown and row.revision == 1}
        for event in trace_of(run, log.steps, shown):
            stream.write(msgspec.json.encode(event) + b"\n")


def _words(terms: Terms) -> str:
    """Return what was searched for, in a few words."""
    given = {name: value for name, value in terms.items() if value is not None and value is not False}
    return ", ".join(f"{name} {value}" for name, value in given.items())[:_LONGEST_WORDS]


async def _requests(store: Store, run: str) -> AsyncIterator[Any]:
    after: tuple[int, str] | None = None
    while page := await store.requests(Query(run=run, after=after)):
        for row in page:
            yield row
        after = page[-1].place


@contextmanager
def _folder(path: Path) -> Any:
    try:
        yield
    except OSError as error:
        raise UserError(f"{str(path)!r} cannot be made a folder for traces: {error.strerror}") from None


def _file_name(run: str) -> str:
    """Return a run's id where it is a plain file name, else its digest."""
    return run if _PLAIN.fullmatch(run) else sha256(run.encode("utf-8", "surrogatepass")).hexdigest()


def _paths(given: Files) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(each) for each in given]


def own_keys(key: Path | None = None) -> PublicKeys:
    """Return the public keys of the signing key of this machine."""
    file = key_file(key)
    if not file.exists():
        raise UserError(
            f"say whose signatures count: there is no signing key in {file} here, so name a file of public keys; "
            "`keyturn audit keys --out FILE` writes it where the key is"
        )
    return Signer.existing(file).public


def read_public(path: Path) -> PublicKeys:
    """Read a file of public keys that somebody trusts."""
    with opened(path) as stream:
        raw = stream.read(2 * 1024 * 1024)
    try:
        keys = PublicKeys.read(raw.decode("ascii"))
    except UnicodeDecodeError:
        raise UserError(f"{str(path)!r} is no file of public keys") from None
    if not keys.newest:
        raise UserError(f"{str(path)!r} holds no public key")
    return keys
