"""Verify an export or a checkpoint with nothing but the file and public keys, in one pass and in constant memory.

What a file says of itself proves nothing; what a trusted key has signed does. So everything is counted and compared on
the way, and the statement at the end, with its signature, says whether that is what was signed.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from ...core.errors import UserError
from .marks import Checkpoint, Marks
from .public_keys import LineSignature, PublicKeys, exact_bytes
from .records import AnyRow, FileRows, FileStart, LogLine, RunHead, Statement, UnreadableRow, encode, read_row
from .report import MOST, EvidenceFault, FaultKind, Unproven, VerifyReport
from .runs import RunReader
from .signatures import Signatures


def verify_file(
    source: Path | BinaryIO, public: PublicKeys, heads: Sequence[Path] = (), trusted: Collection[str] = ()
) -> VerifyReport:
    """Verify an export or a checkpoint; `heads` are checkpoints that were kept elsewhere.

    `trusted` are the ids of people's keys that somebody outside vouches for.

    >>> from io import BytesIO
    >>> print(verify_file(BytesIO(b""), PublicKeys()).faults[0].kind)
    cut
    """
    marks = read_marks(heads, public)
    if not isinstance(source, Path):
        return _FileReader(FileRows(source), public, marks, trusted).read()
    with opened(source) as stream:
        return _FileReader(FileRows(stream), public, marks, trusted).read()


def read_marks(paths: Sequence[Path], public: PublicKeys) -> Marks:
    """Verify checkpoints; one that does not verify is refused, since nothing can be held against it."""
    found: list[Checkpoint] = []
    for path in paths:
        report = verify_file(path, public)
        if not report.ok:
            raise UserError(f"the checkpoint {str(path)!r} does not verify: {report.faults[0]}")
        found.append(Checkpoint(path, report))
    return Marks(found)


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """Open a file to be read, or say that it cannot be."""
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise UserError(f"{str(path)!r} cannot be read: {error.strerror}") from None


class _FileReader:
    """Reads one file from its first row to its signature."""

    def __init__(self, rows: FileRows, public: PublicKeys, marks: Marks, trusted: Collection[str]) -> None:
        self._rows = rows
        self._public = public
        self._marks = marks
        self._report = VerifyReport("file")
        self._signatures = Signatures(self._report, trusted)
        self._start: FileStart | None = None
        self._run: RunReader | None = None
        self._last: str | None = None
        self._number = 0
        self._heads = sha256()
        self._signed: Statement | None = None
        self._loose: list[tuple[int, str]] = []
        # What the statement proves if its signature is good: up to the first fault of each run.
        self._proven = 0
        self._unproven: list[Unproven] = []

    def read(self) -> VerifyReport:
        """Read the file."""
        report = self._report
        rows = self._rows
        while (raw := rows.read()) is not None:
            row = read_row(raw)
            run = self._run
            if type(row) is LogLine and run is not None and row.run == run.run:
                run.line(row, rows.number)
                self._signatures.line(row.run, row.n, row.line, rows.number)
                report.lines += 1
            else:
                self._take(row, raw)
            if self._signed is not None:
                break
        self._end()
        return report

    def _fault(self, kind: FaultKind, what: str, run: str = "", line: int | None = None) -> None:
        self._report.add(EvidenceFault(kind, run, line, self._rows.number, what))

    def _take(self, row: AnyRow | UnreadableRow, raw: bytes) -> None:
        if self._start is None:
            self._begin(row)
            if isinstance(row, UnreadableRow):
                return
        if isinstance(row, LogLine):
            self._stray(row)
        elif isinstance(row, RunHead):
            self._head(row, raw)
        elif isinstance(row, Statement):
            self._signed = row
            self._stated(row, raw)
        elif isinstance(row, UnreadableRow):
            self._unreadable(row)
        elif row is not self._start:
            self._fault("added", "a second first row stands here")

    def _begin(self, row: AnyRow | UnreadableRow) -> None:
        if isinstance(row, FileStart):
            self._start = row
        else:
            self._start = FileStart("export", "", "")
            self._fault("file", "the file does not begin as an export or a checkpoint does")
        self._report.what = self._start.what
        self._report.tenant = self._start.tenant
        self._report.store = self._start.store

    # Runs ----------------------------------------------------------------------------------------------------------

    def _stray(self, line: LogLine) -> None:
        """Take a line that is not of the run that is being read: another run begins, or it does not belong here."""
        self._report.lines += 1
        run = self._run
        if run is not None and not (line.n == 0 and line.run > run.run):
            run.foreign(line, self._rows.number)
            return
        if run is not None:
            self._headless(run)
        if self._last is not None and line.run <= self._last:
            self._fault("moved", "a line of a run stands behind that run", line.run, line.n)
            return
        self._new(line.run).line(line, self._rows.number)
        self._signatures.line(line.run, line.n, line.line, self._rows.number)

    def _headless(self, run: RunReader) -> None:
        if not run.unread:  # else that row was its head, most likely, and was reported
            run.fault("missing", None, self._rows.number, "its head, which says how many lines it has, is not there")
        self._number += 1
        self._close(run, run.count)

    def _new(self, name: str) -> RunReader:
        assert self._start is not None
        for gone in self._marks.before(name):
            self._fault("missing", "the run was signed in a checkpoint, and is not there", gone)
        run = RunReader(self._start.tenant, name, self._marks.of(name), self._report.add)
        for number, why in self._loose:  # rows before it that could not be read are its own, most likely
            run.unreadable(number, why)
        self._loose = []
        self._run = run
        self._last = name
        self._report.runs += 1
        return run

    def _close(self, run: RunReader, lines: int) -> None:
        self._run = None
        self._report.erased += run.erased
        self._report.withheld += run.withheld
        limit = lines if run.bad is None else min(run.bad, lines)
        self._report.proved(run.run, min(run.marked.proven, limit), lines)
        self._proven += limit
        if limit < lines and len(self._unproven) < MOST:
            self._unproven.append(Unproven(run.run, limit, lines))

    def _head(self, head: RunHead, raw: bytes) -> None:
        self._heads.update(raw + b"\n")
        run = self._run
        if run is not None and run.run != head.run:
            self._headless(run)
            run = None
        if run is None and self._last is not None and head.run <= self._last:
            self._fault("moved", "the head of a run stands behind that run, or a second time", head.run)
            return
        if head.number != self._number:
            self._numbered(head)
        self._number = head.number + 1
        run = run or self._new(head.run)
        if self._report.what == "checkpoint":
            self._report.lines += head.lines
            run.marked.look(head.lines, head.head, self._rows.number)
            run.marked.end(head.lines, self._rows.number)
        else:
            run.end(head, self._rows.number)
        self._close(run, head.lines)

    def _numbered(self, head: RunHead) -> None:
        gone = head.number - self._number
        if gone > 0:
            many = f"{gone} runs are" if gone > 1 else "a run is"
            self._fault("missing", f"{many} not there before this one", head.run)
        else:
            self._fault("changed", "the number of the run is not the one that it has here", head.run)

    def _unreadable(self, row: UnreadableRow) -> None:
        if self._run is not None:
            self._run.unreadable(self._rows.number, row.why)
        else:
            self._loose.append((self._rows.number, row.why))

    def _unplaced(self) -> None:
        """Report rows that could not be read and belong to no run."""
        for number, why in self._loose:
            self._report.add(EvidenceFault("file", "", None, number, why))
        self._loose = []

    # The end -------------------------------------------------------------------------------------------------------

    def _stated(self, signed: Statement, raw: bytes) -> None:
        """Compare what was read with what was signed, and verify the signature on that."""
        report = self._report
        if self._run is not None:
            self._headless(self._run)
        self._unplaced()
        self._absent()
        report.at = signed.at
        report.key = signed.key
        report.statement = sha256(raw).hexdigest()
        assert self._start is not None
        if FileStart(signed.what, signed.tenant, signed.store) != self._start and self._start.tenant:
            self._fault("file", "the first row names another kind, tenant or store than was signed")
        if signed.runs > self._number:
            after = f"after run {self._last}" if self._last is not None else "at all"
            self._fault("missing", f"{signed.runs} runs were signed, and {self._number} are there; none {after}")
        whole = self._heads.hexdigest() == signed.heads and signed.runs == report.runs
        if not whole and report.ok:
            self._made_anew()
        if signed.lines != report.lines and report.ok:
            self._fault("file", "the file has another number of lines than was signed")
        if self._trusted(signed, raw) and whole:
            report.unproven = self._unproven
            report.proven = self._proven

    def _made_anew(self) -> None:
        """Report that what is there fits together and is not what was signed; checkpoints say where that may be."""
        what = "the heads of the runs are not those that were signed: some were made anew"
        suspects = self._report.unproven if self._marks.given else []
        if not suspects:
            self._fault("head", f"{what}; a checkpoint that was kept elsewhere tells which (--heads)")
        for each in suspects:
            self._fault("head", f"{what}; no checkpoint vouches for this run from here on", each.run, each.proven)

    def _trusted(self, signed: Statement, raw: bytes) -> bool:
        found = self._rows.read()
        try:
            made = msgspec.json.decode(found or b"", type=LineSignature)
            signature = exact_bytes(made.signature)
            exact = encode(made) == found and self._rows.ended
        except (msgspec.MsgspecError, ValueError):
            self._fault("signature", "there is no signature after the statement: nothing is proven")
            return False
        if not exact:
            self._fault("signature", "the signature is not written as it was")
            return False
        keys = self._public.copy()
        why = keys.add(made.keys)
        if why:
            self._fault("signature", why)
        elif signed.key not in keys:
            self._fault("signature", f"it is signed by key {signed.key}, and none of the trusted keys says who that is")
        elif keys.over(signed.key, signed.at):
            self._fault("signature", f"key {signed.key} had been replaced when this was signed")
        elif not keys.verify(signed.key, raw, signature):
            self._fault("signature", f"the signature is not that of key {signed.key} on this statement")
        else:
            return True
        return False

    def _absent(self) -> None:
        for gone in self._marks.rest():
            self._fault("missing", "the run was signed in a checkpoint, and is not there", gone)

    def _end(self) -> None:
        if self._run is not None:
            self._headless(self._run)
        self._unplaced()
        self._absent()
        if self._signed is None:
            self._fault("cut", "the file ends without a signed statement: its end was cut off")
        elif self._rows.read() is not None:
            self._fault("added", "rows stand behind the signature")
        self._signatures.end()
        self._report.notes += self._marks.notes(self._report.tenant, self._report.store)
