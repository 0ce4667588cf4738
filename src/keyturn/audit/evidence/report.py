"""What a verification found: faults by run and place, and which lines are proven, by what.

A fault names its place and never quotes what stands there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from ...render.escape import escape
from ...render.plural import plural

MOST = 1_000
FaultKind = Literal[
    "changed",
    "missing",
    "moved",
    "foreign",
    "added",
    "cut",
    "head",
    "damaged",
    "file",
    "signature",
    "decision",
    "key",
]


class EvidenceFault(NamedTuple):
    """Describes one thing that is not as it was signed: its kind, the run, its line (from 0), the row of the file.

    >>> print(EvidenceFault("changed", "run", 7, 12, "it is not the line that was written there"))
    changed  run  line 7  (row 12)  it is not the line that was written there
    """

    kind: FaultKind
    run: str
    line: int | None
    row: int | None
    what: str

    def __str__(self) -> str:
        line = "-" if self.line is None else f"line {self.line}"
        row = "" if self.row is None else f"  (row {self.row})"
        return f"{self.kind}  {escape(self.run, keep='') or '-'}  {line}{row}  {escape(self.what, keep='')}"


class Unproven(NamedTuple):
    """Says of a run how many lines are proven, and how many it has.

    >>> print(Unproven("run", 3, 5))
    run run: proven up to line 2, unproven after it (2 lines)
    """

    run: str
    proven: int
    lines: int

    def __str__(self) -> str:
        rest = self.lines - self.proven
        lines = "1 line" if rest == 1 else f"{rest} lines"
        upto = f"proven up to line {self.proven - 1}, unproven after it" if self.proven else "unproven"
        return f"run {escape(self.run, keep='')}: {upto} ({lines})"


@dataclass
class VerifyReport:
    """Counts what was read, and lists what is wrong and what is not proven.

    `proven` counts the lines that a trusted signature covers, `signatures` those of people that were verified. `at` is
    when a file was signed, in milliseconds since 1970, and `key` by which key. The first thousand faults and unproven
    runs are listed, all are counted.

    >>> report = VerifyReport("store")
    >>> report.ok, report.complete
    (True, True)
    """

    what: str
    tenant: str = ""
    store: str = ""
    at: int | None = None
    key: str = ""
    statement: str = ""
    runs: int = 0
    lines: int = 0
    erased: int = 0
    withheld: int = 0
    proven: int = 0
    signatures: int = 0
    found: int = 0
    faults: list[EvidenceFault] = field(default_factory=list[EvidenceFault])
    unproven: list[Unproven] = field(default_factory=list[Unproven])
    notes: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        """Return whether nothing was altered, as far as that can be known."""
        return self.found == 0

    @property
    def complete(self) -> bool:
        """Return whether nothing was altered and every line is proven."""
        return self.ok and self.proven == self.lines

    def add(self, fault: EvidenceFault) -> None:
        """Record a fault."""
        self.found += 1
        if len(self.faults) < MOST:
            self.faults.append(fault)

    def proved(self, run: str, proven: int, lines: int) -> None:
        """Record how much of a run is proven."""
        self.proven += proven
        if proven < lines and len(self.unproven) < MOST:
            self.unproven.append(Unproven(run, proven, lines))

    def data(self) -> dict[str, Any]:
        """Return the report as plain data."""
        told = asdict(self)
        told["faults"] = [fault._asdict() for fault in self.faults]
        told["unproven"] = [each._asdict() for each in self.unproven]
        return {"ok": self.ok, "complete": self.complete, **told}

    def __str__(self) -> str:
        """Render the report as rows."""
        rows = [*map(str, self.faults)]
        if self.found > len(self.faults):
            rows.append(f"... and {self.found - len(self.faults)} more")
        rows += [*map(str, self.unproven), *(f"note: {escape(note, keep='')}" for note in self.notes)]
        counts = [f"{plural(self.runs, 'run')}, {plural(self.lines, 'line')}, {self.proven:,} proven"]
        people = "signature of a person verified" if self.signatures == 1 else "signatures of people verified"
        more = ((self.erased, "erased"), (self.withheld, "withheld"), (self.signatures, people))
        counts += [f"{count} {what}" for count, what in more if count]
        signed = "" if self.at is None else f", signed {moment_of(self.at)} by key {escape(self.key, keep='') or '-'}"
        verdict = "nothing was altered" if self.ok else f"ALTERED: {self.found} faults"
        if self.ok and not self.complete:
            verdict = "nothing was found altered, and not all of it is proven"
        return "\n".join(
            [*rows, f"{self.what} of {escape(self.tenant, keep='') or '-'}{signed}", ", ".join(counts), verdict]
        )


def moment_of(at: int) -> str:
    """Return a time for people to read.

    >>> moment_of(1_700_000_000_000)
    '2023-11-14 22:13:20Z'
    """
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"at {at}"
