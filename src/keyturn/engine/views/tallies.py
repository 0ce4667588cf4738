"""Count what becomes of requests: the tallies of a step, which a store adds up with its lines.

The words of a tally are those by which a request is closed: a verdict of a person or "expire"; "grant", "probe" or
"on_approval" where no person decided; why it asked anew ("escalate", "ask_again", "terms", "restored"); or "void".
"vote VERDICT" is a decision that did not settle it, "read" how long whoever let a call run can have read it, and
"look" when somebody first looked at a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...core import events as ev
from ...core.records import RUNS
from ...core.run import Call, Run, request_id
from ...journal.rows import Closing, RequestRow, Tally, summed


class Asked(NamedTuple):
    """Holds what is counted of a request that is open; `id` is its name in the store."""

    id: str
    tool: str
    agent: str
    kind: str
    risk: str
    asked_at: int

    @classmethod
    def of(cls, row: RequestRow) -> Asked:
        """Take it from the row of a request."""
        return cls(row.id, row.tool, row.agent, row.kind, row.risk, row.asked_at)

    @classmethod
    def in_run(cls, run: Run, call: Call) -> Asked:
        """Take it from a call that waits, as a store knows it."""
        made = call.proposal
        return cls(request_id(run, call.id), made.name, call.agent, call.kind, made.risk or "", call.asked_at)

    def tally(self, what: str, at: int, person: str = "", since: int | None = None) -> Tally:
        """Count something that happened to it, with the time since it was asked, or since another time."""
        took = at - (self.asked_at if since is None else since)
        names = {"tool": self.tool, "agent": self.agent, "kind": self.kind, "risk": self.risk, "person": person}
        return Tally.once(what, took, at=at, **names)


def tallies(open: Mapping[str, Asked], events: list[ev.AnyEvent], closed: Mapping[str, Closing]) -> list[Tally]:
    """Return what a step counts; `open` holds the requests that were open before it, by call, `closed` their ends."""
    found: list[Tally] = []
    decided: dict[str, ev.Decision] = {}
    again: dict[str, str] = {}
    for event in events:
        if isinstance(event, ev.CallDecided):
            decided.setdefault(event.decision.call, event.decision)
        elif isinstance(event, ev.CallAskedAgain):
            again[event.call] = event.why
        elif isinstance(event, ev.VoteCast) and event.decision.call in open and not event.replaced:
            said = event.decision
            found += _of_decision(open[said.call], said, f"vote {said.verdict}")
    for call, end in closed.items():
        asked, said = open[call], decided.get(call)
        if end.state == "void" or said is None:
            found.append(asked.tally(again.get(call, "void"), end.at))
        else:
            found += _of_decision(asked, said, end.state if said.via in ("person", "clock") else said.via)
    return summed(found)


def _of_decision(asked: Asked, said: ev.Decision, what: str) -> Iterator[Tally]:
    person = "" if said.decider is None else said.decider.id
    yield asked.tally(what, said.at, person)
    if person and said.via == "person" and said.verdict in RUNS:
        yield asked.tally("read", said.at, person, _read_since(asked, person))


def _read_since(asked: Asked, _person: str) -> int:
    """Return since when somebody can have read a request: since it was asked, as nothing is recorded of who looked."""
    return asked.asked_at
