"""Follow one run of an export line by line, and say what was done to it where it is not as it was.

After a fault the run is read on: the next line that names a place and a head is believed until its successor says
otherwise, so that one alteration gives one fault and not one for each line behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

from .chain import PublicChain
from .records import LogLine, RunHead
from .report import EvidenceFault, FaultKind, moment_of

Tell = Callable[[EvidenceFault], None]


class CheckpointMark(NamedTuple):
    """Says what a trusted checkpoint of some time says of a run: how many lines, and their head."""

    lines: int
    head: str
    at: int


class Marked:
    """Holds a chain against the marks of a run, and how far they prove it."""

    def __init__(self, run: str, marks: Sequence[CheckpointMark], tell: Tell) -> None:
        self._run = run
        self._marks = sorted(marks)
        self._tell = tell
        self.proven = 0

    @property
    def next(self) -> int:
        """Return at which count the next mark is looked at; -1 where none is left."""
        return self._marks[0].lines if self._marks else -1

    def look(self, count: int, head: str, row: int | None) -> None:
        """Compare the head after so many lines with each mark that is set there."""
        while self._marks and self._marks[0].lines == count:
            mark = self._marks.pop(0)
            if mark.head == head:
                self.proven = count
                continue
            what = f"lines {self.proven} to {count - 1} are not those that were signed {moment_of(mark.at)}"
            self._tell(EvidenceFault("changed", self._run, self.proven, row, what))
            self._marks.clear()

    def skip(self, count: int) -> None:
        """Drop the marks up to a line about which something was reported already."""
        self._marks = [mark for mark in self._marks if mark.lines > count]

    def end(self, count: int, row: int | None) -> None:
        """Report a run that is shorter than a mark says."""
        if self._marks:
            mark = self._marks[-1]
            after = f"after line {count - 1}" if count else "before its first line"
            what = f"the log was cut {after}: {mark.lines} lines of it were signed {moment_of(mark.at)}"
            self._tell(EvidenceFault("cut", self._run, count, row, what))


class RunReader:
    """Verifies the lines of one run and its head, as they stand in an export."""

    def __init__(self, tenant: str, run: str, marks: Sequence[CheckpointMark], tell: Tell) -> None:
        self.run = run
        self._tell = tell
        self._chain = PublicChain(tenant, run)
        self.marked = Marked(run, marks, tell)
        self.marked.look(0, self._chain.head.hex(), None)
        self._next = self.marked.next
        # Another head that the last line may have: the one that was computed, where another one stood there.
        self._other: bytes | None = None
        self._lacking: list[range] = []
        # How many rows in a row were not lines of this run: each may stand where one of its lines was.
        self.unread = 0
        self.erased = 0
        self.withheld = 0
        # The first line about which there is a fault: nothing from there on is proven.
        self.bad: int | None = None

    @property
    def count(self) -> int:
        """Return the place of the line that comes next."""
        return self._chain.count

    def fault(self, kind: FaultKind, line: int | None, row: int, what: str) -> None:
        """Report a fault of this run."""
        place = line or 0
        self.bad = place if self.bad is None else min(self.bad, place)
        self._tell(EvidenceFault(kind, self.run, line, row, what))

    def line(self, line: LogLine, row: int) -> None:
        """Verify the next line."""
        chain = self._chain
        digest = self._digest(line)
        head = sha256(chain.head + digest + line.seal.encode()).digest() if digest is not None else b""
        if line.n != chain.count or head.hex() != line.hash:
            self._odd(line, digest, head, row)
            return
        chain.head = head
        chain.count += 1
        if self.unread or self._other is not None:
            self.unread = 0
            self._other = None
        if chain.count == self._next:
            self.marked.look(chain.count, line.hash, row)
            self._next = self.marked.next

    def _digest(self, line: LogLine) -> bytes | None:
        """Return the digest of a line's body; None for a row that has none, or two."""
        text = line.line
        if text is not None:
            if line.erased is not None or line.withheld is not None:
                return None
            return sha256(text.encode()).digest()
        given = line.withheld if line.erased is None else line.erased
        if given is None or (line.erased is not None and line.withheld is not None):
            return None
        self.erased += line.erased is not None
        self.withheld += line.withheld is not None
        try:
            digest = bytes.fromhex(given)
        except ValueError:
            return None
        return digest if digest.hex() == given and len(digest) == 32 else None

    def _odd(self, line: LogLine, digest: bytes | None, head: bytes, row: int) -> None:
        """Take a line that does not follow from the one before it."""
        expected = self._chain.count
        if line.n != expected and head.hex() == line.hash:
            self.fault("changed", expected, row, f"it says that it is line {line.n}")
            self._chain.head = head
            self._chain.count += 1
            return
        if line.n < expected:
            self._late(line, row)
            return
        if line.n == expected:
            if not self._fits_other(line, digest):
                self.fault("changed", expected, row, "it is not the line that was written there")
        elif line.n > expected + self.unread:
            self._lacks(range(expected, line.n), line.n, row)
        self._on(line, head)

    def _fits_other(self, line: LogLine, digest: bytes | None) -> bool:
        """Return whether a line follows from what the one before it came to, where another head stood there."""
        if self._other is None or digest is None:
            return False
        return sha256(self._other + digest + line.seal.encode()).hexdigest() == line.hash

    def _lacks(self, places: range, found: int, row: int) -> None:
        self._lacking.append(places)
        first, last = places.start, places.stop - 1
        many = f"lines {first} to {last} are" if last > first else f"line {first} is"
        self.fault("missing", first, row, f"{many} not there: line {found} stands in that place")

    def _late(self, line: LogLine, row: int) -> None:
        """Report a line that stands behind its place."""
        after = self._chain.count - 1
        if any(line.n in places for places in self._lacking):
            self.fault("moved", line.n, row, f"it was moved: it stands after line {after}")
        else:
            self.fault("added", line.n, row, f"a second line {line.n} stands after line {after}")

    def _on(self, line: LogLine, computed: bytes) -> None:
        """Go on from what a line says of itself."""
        try:
            stated = bytes.fromhex(line.hash)
        except ValueError:
            stated = computed
        self._chain.head = stated
        self._chain.count = line.n + 1
        self._other = computed
        self.unread = 0
        self.marked.skip(self._chain.count)
        self._next = self.marked.next

    def unreadable(self, row: int, why: str) -> None:
        """Report a row that cannot be read where a line of this run should be."""
        self.fault("changed", self.count + self.unread, row, why)
        self.unread += 1

    def foreign(self, line: LogLine, row: int) -> None:
        """Report a line of another run."""
        what = f"line {line.n} of another run stands in this place"
        self.fault("foreign", self._chain.count, row, what)
        self.unread += 1

    def end(self, head: RunHead, row: int) -> None:
        """Verify the head of the run, after its last line."""
        count = self._chain.count
        if count + self.unread < head.lines:
            what = f"the log was cut: {head.lines} lines of it were signed, and {count} are there"
            self.fault("cut", count, row, what)
        elif count > head.lines:
            self.fault("added", head.lines, row, f"{count - head.lines} lines stand after the last one that was signed")
        elif not self.unread and head.head not in (self._chain.head.hex(), self._other and self._other.hex()):
            what = "its lines come to another head: they were made anew, or the head was changed"
            self.fault("head", None, row, what)
        if head.erased != bool(self.erased) or (self.erased and self.erased != count):
            self.fault("changed", None, row, "lines of it are erased, and the run was not, or not all of it")
        if head.withheld != self.withheld and not self.unread:
            self.fault(
                "changed", None, row, f"{self.withheld} of its lines are withheld, and {head.withheld} were signed so"
            )
        if head.damaged:
            self.fault("damaged", head.lines, row, f"in the store {head.damaged}; nothing after this line was signed")
        self.marked.end(head.lines, row)
