"""Check what runs borrow of each other: every grant of another run was given there, and lent for that very call.

One log says only its own side of it. What is borrowed is kept until the log of its home was read; a home that is
erased, or that cannot be read, can neither bear it out nor deny it.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..core import events as ev
from .log import LogAutomaton
from .report import CheckReport


class Loans:
    """Holds both sides of every loan, until all logs are read."""

    def __init__(self) -> None:
        self._lent: dict[tuple[str, str, str], ev.GrantTerms] = {}
        self._borrowed: list[tuple[str, str, ev.GrantTerms]] = []
        self._silent: set[str] = set()

    def read(self, automaton: LogAutomaton) -> None:
        """Take over what a log that was read to its end lent and borrowed."""
        self._lent |= {(automaton.run, *place): grant for place, grant in automaton.lent.items()}
        self._borrowed += [(automaton.run, home, grant) for grant, home in automaton.borrowed]

    def unread(self, run: str) -> None:
        """Note a run whose log says nothing any more, or nothing that can be believed."""
        self._silent.add(run)

    def left(self, report: CheckReport) -> None:
        """Report what was borrowed and not lent."""
        for run, home, grant in self._borrowed:
            if home in self._silent:
                continue
            given = self._lent.get((home, run, grant.call or ""))
            if given is None:
                report.add("I1", run, None, f"grant {grant.id} was borrowed for call {grant.call} and never lent")
            elif replace(grant, id=given.id, uses=given.uses, call=None) != given:
                report.add("I1", run, None, f"grant {grant.id} was borrowed on other terms than it was given")
