"""Project a step onto the rows of a store: the run at a glance, requests opened and closed, grants, notices, tallies.

Derived from the run as it stands after the step and from the step's events; a projection, never a second truth.
Whoever appends to a journal sends these along, so that they are written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...core import events as ev
from ...core.codec import as_text
from ...core.drill_words import word_of
from ...core.effects import waiting
from ...core.errors import RunMissing
from ...core.folding import fold
from ...core.gate.reviews import open_review, review_name, reviewed_call
from ...core.request import request_of, review_of
from ...core.run import Call, Run, new_run
from ...core.states import OVER
from ...core.upcasts import FORMAT
from ...journal.base import Journal
from ...journal.rows import Changes, Closing, GrantRow, Notice, RequestRow, RunRow, Tally, summed
from ..run.about import priority_of, session_name
from ..run.log_cache import log_in
from .notices import NOTICE_MAKERS, RESOLVING, created_all, notices_of, resolved, review_created
from .tallies import OpenRequest, tallies

# After these a call may have begun to wait; after those it waits no longer, and it is named; after these any may not.
_OPENING = (ev.CallScreened, ev.CallNeeds, ev.CallLost, ev.CallAskedAgain, ev.CallMarked, ev.CallLooked)
# After these nothing is to be done for the run: they are for people, or for other runs.
_VOTES = (ev.VoteCast, ev.VoteWithdrawn)
_QUIET = frozenset((ev.VoteWithdrawn, ev.CallMarked, ev.CallLooked, ev.ReviewGiven, ev.GrantLent, ev.GrantRevoked))
_SWEEPING = frozenset((ev.FrameClosed, ev.RunCancelled))
_GRANTING = (ev.GrantGiven, ev.GrantUsed, ev.GrantLent)


def run_row(run: Run, started_at: int) -> RunRow:
    """Make the row of a run."""
    status = run.status
    if status == "running" and (run.queued or waiting(run)):
        status = "queued" if run.queued else "waiting"
    status = "set_aside" if run.lost and status == "failed" else status
    asks = len(run.groups["wait"]) if run.status in ("running", "failed") else 0
    workflow = str(run.about.get("workflow", ""))
    return RunRow(run.id, run.root_agent, status, started_at, run.now, asks, run.turns, workflow, run.error)


def opened_by(run: Run, events: list[ev.AnyEvent]) -> list[Call]:
    """Return the calls that wait since these events, and those that were voted on."""
    kinds = set(map(type, events))
    if kinds.isdisjoint(_OPENING) and kinds.isdisjoint(_VOTES):
        return []
    named = dict.fromkeys(event.call for event in events if isinstance(event, _OPENING))
    named |= dict.fromkeys(event.decision.call for event in events if isinstance(event, _VOTES))
    return [call for call_id in named if (call := run.groups["wait"].get(call_id)) is not None]


def request_row(run: Run, call: Call) -> RequestRow:
    """Make the row of a call that waits."""
    return RequestRow.of(request_of(run, call))


def changes(
    run: Run,
    open: Mapping[str, OpenRequest],
    events: list[ev.AnyEvent],
    started_at: int,
    opened: list[RequestRow] | None = None,
) -> Changes:
    """Return the row changes of a step that was just folded; `open` holds the open requests by call.

    `opened` are the rows of what is opened by it, where they were made before.
    """
    kinds = frozenset(map(type, events))  # of most steps, nothing but the run's own row
    closed = _closed(run, open, events) if open else {}
    waits = opened_by(run, events)
    if opened is None:
        opened = [request_row(run, call) for call in waits] if waits else []
    told: list[Notice] = []
    if waits or closed or not kinds.isdisjoint(NOTICE_MAKERS):
        told = notices_of(run, [] if run.status in OVER else waits, closed, events)
    if not kinds.isdisjoint(RESOLVING):
        told += resolved(run, events)
    if opened and run.status in OVER:  # a call in flight is unknown for good: it is shown, and cannot be resolved
        opened = [msgspec.structs.replace(row, state="void", closed_at=run.now) for row in opened]
    if ev.ReviewAsked in kinds:
        asked = dict.fromkeys(event.call for event in events if isinstance(event, ev.ReviewAsked))
        opened += [RequestRow.of(review_of(run, run.reviews[call])) for call in asked]
    revoked: list[str] = []
    if ev.GrantRevoked in kinds:
        revoked = [event.grant for event in events if isinstance(event, ev.GrantRevoked)]
    granted = [] if kinds.isdisjoint(_GRANTING) else _grants(run, events)
    counted = tallies(run, open, events, closed) if open else []
    row, ends = run_row(run, started_at), list(closed.values())
    of_run = session_name(run.about), FORMAT, priority_of(run.about)
    return Changes(row, opened, ends, granted, revoked, told, kinds <= _QUIET, counted, *of_run)


def open_after(open: dict[str, OpenRequest], made: Changes) -> dict[str, OpenRequest]:
    """Give the open requests by call as they are once these changes are kept."""
    if not made.opened and not made.closed:
        return open
    ended = {row.id for row in made.closed}
    left = {call: asked for call, asked in open.items() if asked.id not in ended}
    return left | {row.call: OpenRequest.of(row) for row in made.opened if row.state == "open"}


def replayed(steps: list[ev.Step]) -> Changes:
    """Return all rows of a run that no store has yet, from its log.

    What a fork copied is counted where it was decided.
    """
    run = new_run()
    open = dict[str, OpenRequest]()
    counted = list[Tally]()
    requests = dict[str, RequestRow]()
    grants = dict[str, GrantRow]()
    for number, made in enumerate(steps):
        fold(run, [made])
        change = changes(run, open, made.events, steps[0].at)
        counted += change.tallies if number >= copied_lines(run) else []
        open = open_after(open, change)
        for end in change.closed:
            requests[end.id] = requests[end.id].ended(end)
        requests.update((row.id, row) for row in change.opened)
        grants.update((row.id, row) for row in change.grants)
        for name in grants.keys() & change.revoked:
            grants[name] = msgspec.structs.replace(grants[name], revoked=True)
    waits = [] if run.status in OVER else created_all(run, run.groups["wait"].values())
    waits += [review_created(run, each) for call, each in run.reviews.items() if open_review(run, call)]
    row, grown = run_row(run, steps[0].at), list(grants.values())
    session, priority = session_name(run.about), priority_of(run.about)
    made = Changes(row, list(requests.values()), grants=grown, notices=waits, tallies=summed(counted))
    return msgspec.structs.replace(made, session=session, format=FORMAT, priority=priority)


def copied_lines(run: Run) -> int:
    """Return how many lines of a run were copied from the one that it is a fork of."""
    origin: object = run.about.get("forked_from")
    return int(cast("dict[str, Any]", origin).get("at", 0)) if isinstance(origin, dict) else 0


async def rows_in(journal: Journal, run: str) -> Changes:
    """Make all rows of a run; `LogDamaged` where its log is not the one that was written either."""
    log = await log_in(journal, run)
    if not log.steps:
        raise RunMissing(run)
    return replayed(log.steps)


def _closed(run: Run, open: Mapping[str, OpenRequest], events: list[ev.AnyEvent]) -> dict[str, Closing]:
    """Return the requests that wait no longer, by call, with the verdict that closed them."""
    closed = dict[str, Closing]()
    for event in events:
        call = _named(event)
        if call is None or call not in open or call in closed:
            continue
        if isinstance(event, ev.CallDecided):
            decision = event.decision
            state = "asked_back" if decision.asks_back else decision.verdict
            closed[call] = Closing(open[call].id, state, decision.at, decision.by or "")
        elif isinstance(event, ev.ReviewGiven):
            closed[call] = Closing(open[call].id, event.verdict, run.now, event.decider.id)
        elif isinstance(event, ev.DrillEnded):
            closed[call] = Closing(open[call].id, word_of(event), event.decision.at, event.decision.by or "")
        elif isinstance(event, ev.CallVoided | ev.CallAskedAgain | ev.ReviewAsked):
            closed[call] = Closing(open[call].id, "void", run.now)
    kinds = set(map(type, events))
    if ev.RunForked in kinds:  # what is to be reviewed was let run in another run
        left = [name for name in open if reviewed_call(name) and not open_review(run, reviewed_call(name) or "")]
        closed |= {name: Closing(open[name].id, "void", run.now) for name in left}
    if not kinds.isdisjoint(_SWEEPING):
        waiting_still = {} if run.status == "cancelled" else run.groups["wait"]
        gone = [call for call in open if call not in closed and call not in waiting_still and not reviewed_call(call)]
        closed |= {call: Closing(open[call].id, "void", run.now) for call in gone}
    return closed


def _named(event: ev.AnyEvent) -> str | None:
    """Return which call an event is about, or which review."""
    if isinstance(event, ev.CallDecided | ev.DrillEnded):
        return event.decision.call
    if isinstance(event, ev.ReviewAsked | ev.ReviewGiven):
        return review_name(event.call)
    return getattr(event, "call", None)


def _grants(run: Run, events: list[ev.AnyEvent]) -> list[GrantRow]:
    given = {event.grant.id: event.grant for event in events if isinstance(event, ev.GrantGiven)}
    used = {event.grant for event in events if isinstance(event, ev.GrantUsed | ev.GrantLent)} - given.keys()
    terms = given | {name: run.grants[name] for name in used if name in run.grants}
    return [_grant(run, each) for each in terms.values()]


def _grant(run: Run, terms: ev.GrantTerms) -> GrantRow:
    tool = str(run.tools.get(terms.tool, {}).get("name", terms.tool))
    body = as_text(terms)
    return GrantRow(terms.id, run.id, tool, terms.agent, body, terms.reach, run.grant_uses.get(terms.id, 0))


def known_open(run: Run) -> dict[str, OpenRequest]:
    """Return the open requests of a run that was loaded, under the ids that a store knows."""
    waits = {call_id: OpenRequest.in_run(run, call) for call_id, call in run.groups["wait"].items()}
    asked = {
        review_name(call): OpenRequest.of_review(run, each)
        for call, each in run.reviews.items()
        if open_review(run, call)
    }
    return waits | asked
