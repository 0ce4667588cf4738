"""The report of a check: violations by invariant, run and place, and how much was read.

A violation names its place and never quotes what stands there: reports are read by more people than journals are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ..render.escape import escape
from ..render.plural import plural

#: The promises, by number, in as many words as a table has room for.
INVARIANTS: dict[str, str] = {
    "I1": "no effect without a valid decision for exactly those bytes",
    "I2": "once, or in doubt and visible",
    "I3": "one decision for each asking",
    "I4": "what was seen is what runs",
    "I5": "what was acknowledged is there",
    "I6": "no pending request is lost",
    "I7": "in doubt nothing runs",
    "I8": "the record is whole, and its rows say what it says",
}
MOST = 1_000


class Violation(NamedTuple):
    """Describes one broken promise: which, in which run, at which line of its log (from 0), and what is wrong.

    >>> print(Violation("I2", "run", 7, "call r/1.0 started twice"))
    I2  run  line 7  call r/1.0 started twice
    """

    invariant: str
    run: str
    position: int | None
    what: str

    def __str__(self) -> str:
        place = "-" if self.position is None else f"line {self.position}"
        run = escape(self.run, keep="") or "-"
        return f"{self.invariant}  {run}  {place}  {escape(self.what, keep='')}"


class Told(NamedTuple):
    """Names a decision that somebody was told is kept; `call` is the call's id or its request's.

    >>> Told("run", "r/1.0", "approve").by is None
    True
    """

    run: str
    call: str
    verdict: str
    by: str | None = None


class Head(NamedTuple):
    """Says how far a log had come when somebody kept this elsewhere: its number of lines, and what they come to.

    That is the head of its public chain (`evidence/chain.py`), as a checkpoint signs it.

    >>> Head(2, "5e1f").lines
    2
    """

    lines: int
    hash: str


@dataclass(slots=True)
class CheckReport:
    """Counts what was read and lists what was found.

    `unproven` counts the lines that no external checkpoint covers.

    The first thousand violations are listed, all are counted. `moving` are runs that changed each time they were read.

    >>> report = CheckReport()
    >>> report.add("I1", "run", 3, "call r/1.0 started without a decision")
    >>> report.ok, report.found, [violation.invariant for violation in report.violations]
    (False, 1, ['I1'])
    """

    runs: int = 0
    lines: int = 0
    erased: int = 0
    moving: int = 0
    unproven: int = 0
    found: int = 0
    violations: list[Violation] = field(default_factory=list[Violation])

    @property
    def ok(self) -> bool:
        """Return whether every promise was kept."""
        return self.found == 0

    def add(self, invariant: str, run: str, position: int | None, what: str) -> None:
        """Record a violation."""
        self.found += 1
        if len(self.violations) < MOST:
            self.violations.append(Violation(invariant, run, position, what))

    def data(self) -> dict[str, Any]:
        """Return the report as plain data."""
        told = asdict(self)
        told["violations"] = [violation._asdict() for violation in self.violations]
        return {"ok": self.ok, **told}

    def _uncovered(self) -> str:
        """Say how many lines only the store itself vouches for."""
        if not self.unproven:
            return ""
        lines = plural(self.unproven, "line")
        return f"; no external checkpoint covers {lines}, so a cut tail would not be noticed"

    def __str__(self) -> str:
        """Render the report as a table."""
        looked = f"{plural(self.runs, 'run')}, {plural(self.lines, 'line')}"
        more = [(self.erased, "runs erased"), (self.moving, "runs moving too fast to be read")]
        counts = ", ".join([looked, *(f"{count} {what}" for count, what in more if count)])
        if self.ok:
            return f"{counts} verified{self._uncovered()}"
        hidden = self.found - len(self.violations)
        rows = [*map(str, self.violations), *([f"... and {hidden} more"] if hidden else [])]
        broken = sorted({violation.invariant for violation in self.violations})
        words = [f"  {name}: {INVARIANTS.get(name, '')}" for name in broken]
        return "\n".join([*rows, "", f"{counts}: {plural(self.found, 'violation')} of", *words])
