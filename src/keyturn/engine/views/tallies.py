"""Count what becomes of requests: the tallies of a step, which a store adds up with its lines.

The words of a tally are those by which a request is closed: a verdict of a person or "expire"; "grant", "probe" or
"on_approval" where no person decided; why it asked anew ("escalate", "ask_again", "terms", "restored", "step"); "void".
"vote VERDICT" is a decision that did not settle it, "read" how long whoever let a call run can have read it, and
"look" when somebody first looked at a request. "right" and "wrong" are what was said of a call that had run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...core import events as ev
from ...core.gate.reviews import review_name
from ...core.records import RUNS
from ...core.run import Call, Review, Run, request_id
from ...journal.rows import Closing, RequestRow, Tally, summed


class OpenRequest(NamedTuple):
    """Holds what is counted of a request that is open; `id` is its name in the store."""

    id: str
    tool: str
    agent: str
    kind: str
    risk: str
    asked_at: int

    @classmethod
    def of(cls, row: RequestRow) -> OpenRequest:
        """Take it from the row of a request."""
        return cls(row.id, row.tool, row.agent, row.kind, row.risk, row.asked_at)

    @classmethod
    def in_run(cls, run: Run, call: Call) -> OpenRequest:
        """Take it from a call that waits, as a store knows it."""
        made = call.proposal
        return cls(request_id(run, call.id), made.name, call.agent, call.kind, made.risk or "", call.asked_at)

    @classmethod
    def of_review(cls, run: Run, review: Review) -> OpenRequest:
        """Take it from a call that others are asked about, as a store knows that."""
        made, name = review.call.proposal, review_name(review.call.id)
        return cls(request_id(run, name), made.name, review.call.agent, "review", made.risk or "", review.asked_at)

    def tally(self, what: str, at: int, person: str = "", since: int | None = None) -> Tally:
        """Count something that happened to it, with the time since it was asked, or since another time."""
        took = at - (self.asked_at if since is None else since)
        names = {"tool": self.tool, "agent": self.agent, "kind": self.kind, "risk": self.risk, "person": person}
        return Tally.once(what, took, at=at, **names)


def tallies(
    run: Run, open: Mapping[str, OpenRequest], events: list[ev.AnyEvent], closed: Mapping[str, Closing]
) -> list[Tally]:
    """Return what a step counts; `open` holds the requests that were open before it, by call, `closed` their ends."""
    found: list[Tally] = []
    decided: dict[str, ev.Decision] = {}
    again: dict[str, str] = {}
    reviewed: dict[str, ev.ReviewGiven] = {}
    drilled: set[str] = set()
    for event in events:
        if isinstance(event, ev.CallDecided):
            decided.setdefault(event.decision.call, event.decision)
        elif isinstance(event, ev.DrillEnded):
            drilled.add(event.decision.call)
        elif isinstance(event, ev.RunForked):
            return []  # what a fork copied is asked where it was, and counted there
        elif isinstance(event, ev.CallAskedAgain):
            again[event.call] = event.why
        elif isinstance(event, ev.ReviewGiven):
            reviewed[review_name(event.call)] = event
        elif isinstance(event, ev.CallLooked) and event.call in open and _is_first(run, event):
            found.append(open[event.call].tally("look", run.now, event.decider.id))
        elif isinstance(event, ev.VoteCast) and event.decision.call in open and not event.replaced:
            said = event.decision
            found += _of_decision(run, open[said.call], said, f"vote {said.verdict}")
    for call, end in closed.items():
        asked, said = open[call], decided.get(call)
        if call in reviewed:
            found.append(asked.tally(reviewed[call].verdict, end.at, reviewed[call].decider.id))
        elif call in drilled:
            found.append(asked.tally(end.state, end.at, end.by))
        elif end.state == "void" or said is None:
            found.append(asked.tally(again.get(call, "void"), end.at))
        else:
            found += _of_decision(run, asked, said, end.state if said.via in ("person", "clock") else said.via)
    return summed(found)


def _of_decision(run: Run, asked: OpenRequest, said: ev.Decision, what: str) -> Iterator[Tally]:
    person = "" if said.decider is None else said.decider.id
    yield asked.tally(what, said.at, person)
    if person and said.via == "person" and said.verdict in RUNS:
        yield asked.tally("read", said.at, person, _read_since(run, asked, said))


def _read_since(run: Run, asked: OpenRequest, said: ev.Decision) -> int:
    """Return since when somebody can have read a request: since they looked, if that is known, or since it asked."""
    call = run.calls.get(said.call)
    looks = {} if call is None else call.met[-1].looks if said.confirms and call.met else call.looks
    since = None if said.decider is None else looks.get(said.decider.id)
    return asked.asked_at if since is None else since


def _is_first(run: Run, event: ev.CallLooked) -> bool:
    """Return whether nobody had looked at a request before, as it is asked now."""
    call = run.calls.get(event.call)
    return call is not None and next(iter(call.looks), None) == event.decider.id
