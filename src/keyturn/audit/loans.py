"""Check what runs borrow of each other: every grant of another run was given there, and lent for that very call.

So with limits that several runs share: a call that a run says was counted in another log was counted there.

One log says only its own side of it. What is borrowed is kept until the log of its home was read; a home that is
erased, or that cannot be read, can neither bear it out nor deny it. What a fork copied was lent to its origin.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..core import events as ev
from .calls import canonical_text
from .report import CheckReport
from .run import AuditedRun


class _Loan(NamedTuple):
    """Holds what a run says that it borrowed, and in which line."""

    run: str
    home: str
    grant: ev.GrantTerms
    line: int


class _Part(NamedTuple):
    """Holds which call a run says is counted in another log, and in which line it says so."""

    run: str
    home: str
    call: str
    line: int


class Loans:
    """Holds both sides of every loan, until all logs are read.

    `_whose` says of each run for whom it acts and in which session, `_origins` of which run a fork copied how many
    lines, `_silent` which logs say nothing any more.
    """

    def __init__(self) -> None:
        self._lent: dict[tuple[str, str, str], ev.GrantTerms] = {}
        self._borrowed: list[_Loan] = []
        self._taken: dict[str, set[tuple[str, str]]] = {}
        self._parts: list[_Part] = []
        self._told: list[_Part] = []
        self._whose: dict[str, dict[str, Any]] = {}
        self._origins: dict[str, tuple[str, int]] = {}
        self._silent: set[str] = set()

    def read(self, audited: AuditedRun) -> None:
        """Take over what a log that was read to its end lent and borrowed."""
        run = audited.run
        self.read_again(audited)
        self._borrowed += [_Loan(run, home, grant, line) for grant, home, line in audited.borrowed]
        self._parts += [_Part(run, home, call, line) for home, call, line in audited.counted_in]
        self._told += [_Part(run, _prefix(watch), call, line) for watch, call, line in audited.breakers_notified]
        names = [(name, audited.about.get(name)) for name in ("session_id", "conversation_id")]
        session = next((named for named in names if isinstance(named[1], str)), None)
        kept = audited.about.get("session_store")
        self._whose[run] = {"requester": audited.requester, "session": (session, kept, audited.requester)}
        copied: Any = audited.about.get("forked_from")
        if copied is not None:
            self._origins[run] = copied["run"], copied["at"]

    def read_again(self, audited: AuditedRun) -> None:
        """Take over what a log lent by now."""
        self._lent |= {(audited.run, *place): grant for place, grant in audited.lent.items()}
        if audited.ever_taken:
            self._taken[audited.run] = audited.ever_taken

    def unread(self, run: str) -> None:
        """Note a run whose log says nothing any more, or nothing that can be believed."""
        self._silent.add(run)

    def denied_by(self) -> list[str]:
        """Return the runs whose logs do not know of what others borrowed of them, as far as those were read."""
        loans = {loan.home for loan in self._borrowed if loan.home not in self._silent and not self._given(loan)}
        told = {home for part in self._told if self._untold(part) for home in self._taken if home.startswith(part.home)}
        return sorted(loans | told | {part.home for part in self._parts if self._uncounted(part)})

    def left(self, report: CheckReport) -> None:
        """Report what was borrowed and not lent, or by a run that the grant does not reach."""
        for loan in self._borrowed:
            fault = "" if loan.home in self._silent else self._fault(loan)
            if fault:
                report.add("I1", loan.run, None, f"grant {loan.grant.id} {fault}")

        for part in self._parts:
            if self._uncounted(part):
                what = f"call {part.call} was allowed as counted in {part.home}, which never counted it"
                report.add("I1", part.run, None, what)

        for part in self._told:
            if self._untold(part):
                what = f"call {part.call} did not go well, and the breaker that counts it was never told"
                report.add("I8", part.run, None, what)

    def _untold(self, part: _Part) -> bool:
        """Return whether no log of a count, all of which were read, says anything of a call that it was told of."""
        taker = self._taken_by(part)
        silent = taker in self._silent or any(name.startswith(part.home) for name in self._silent)
        homes = [taken for home, taken in self._taken.items() if home.startswith(part.home)]
        return not silent and bool(homes) and not any((taker, part.call) in taken for taken in homes)

    def _uncounted(self, part: _Part) -> bool:
        """Return whether a log that was read says nothing of a call that is said to be counted there."""
        taker = self._taken_by(part)
        silent = part.home in self._silent or taker in self._silent
        return not silent and (taker, part.call) not in self._taken.get(part.home, ())

    def _fault(self, loan: _Loan) -> str:
        given = self._given(loan)
        if given is None:
            unknown = self._taken_by(loan) in self._silent  # which may have copied it of yet another run
            return "" if unknown else f"was borrowed for call {loan.grant.call} and never lent"
        if replace(loan.grant, id=given.id, uses=given.uses, call=None) != given:
            return "was borrowed on other terms than it was given"
        scope = given.reach.partition(":")[0]
        home = self._whose.get(loan.home)
        if home is not None and self._whose[loan.run].get(scope) != home.get(scope):
            return "was borrowed by a run that it does not reach"
        return ""

    def _given(self, loan: _Loan) -> ev.GrantTerms | None:
        """Return the grant that was lent for this call, as its home says."""
        return self._lent.get((loan.home, self._taken_by(loan), loan.grant.call or ""))

    def _taken_by(self, loan: _Loan | _Part) -> str:
        """Return the run that borrowed: the one of which a fork copied the line, where it is a copy."""
        run, seen = loan.run, set[str]()
        while run in self._origins and run not in seen and loan.line <= self._origins[run][1]:
            seen.add(run)
            run = self._origins[run][0]
        return run


def _prefix(watch: ev.Watch) -> str:
    """Return how the names of all logs of a breaker's count begin."""
    text = canonical_text([watch.count, watch.per_ms])
    return f"quota-{sha256(text.encode()).hexdigest()[:32]}-"
