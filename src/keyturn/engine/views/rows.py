"""Project a step onto the rows of a store: the run at a glance, requests opened and closed, grants.

Derived from the run as it stands after the step and from the step's events; a projection, never a second truth.
Whoever appends to a journal sends these along, so that they are written in the same transaction.
"""

from __future__ import annotations

import msgspec

from ...core import events as ev
from ...core.codec import as_text
from ...core.effects import waiting
from ...core.evolve import fold
from ...core.request import request_of
from ...core.run import Call, Run, new_run, request_id
from ...core.states import OVER
from ...journal.rows import Changes, Closing, GrantRow, RequestRow, RunRow

# After these a call may have begun to wait; after those it waits no longer, and it is named; after these any may not.
_OPENING = (ev.CallScreened, ev.CallNeeds, ev.CallLost, ev.CallAskedAgain)
_SWEEPING = (ev.FrameClosed, ev.RunCancelled)


def run_row(run: Run, started_at: int) -> RunRow:
    """Make the row of a run."""
    status = "waiting" if run.status == "running" and waiting(run) else run.status
    asks = len(run.groups["wait"]) if run.status in ("running", "failed") else 0
    workflow = str(run.about.get("workflow", ""))
    return RunRow(run.id, run.root_agent, status, started_at, run.now, asks, run.turns, workflow, run.error)


def opened_by(run: Run, events: list[ev.AnyEvent]) -> list[Call]:
    """Return the calls that wait since these events, and those that were voted on."""
    named = dict.fromkeys(event.call for event in events if isinstance(event, _OPENING))
    named |= dict.fromkeys(event.decision.call for event in events if isinstance(event, ev.VoteCast))
    return [call for call_id in named if (call := run.groups["wait"].get(call_id)) is not None]


def changes(run: Run, open: dict[str, str], events: list[ev.AnyEvent], started_at: int) -> Changes:
    """Return the row changes of a step that was just folded; `open` holds the open requests by call."""
    closed = _closed(run, open, events)
    opened = [RequestRow.of(request_of(run, call)) for call in opened_by(run, events)]
    if run.status in OVER:  # what was in flight is in doubt for good: it is shown, and nobody can settle it any more
        opened = [msgspec.structs.replace(row, state="void", closed_at=run.now) for row in opened]
    else:
        open.update((row.call, row.id) for row in opened)
    revoked = [event.grant for event in events if isinstance(event, ev.GrantRevoked)]
    return Changes(run_row(run, started_at), opened, closed, _grants(run, events), revoked)


def replayed(steps: list[ev.Step]) -> Changes:
    """Return all rows of a run that no store has yet, from its log."""
    run = new_run()
    open = dict[str, str]()
    requests = dict[str, RequestRow]()
    grants = dict[str, GrantRow]()
    for made in steps:
        fold(run, [made])
        change = changes(run, open, made.events, steps[0].at)
        for end in change.closed:
            requests[end.id] = requests[end.id].ended(end)
        requests.update((row.id, row) for row in change.opened)
        grants.update((row.id, row) for row in change.grants)
        for name in change.revoked:
            grants[name] = msgspec.structs.replace(grants[name], revoked=True)
    return Changes(run_row(run, steps[0].at), list(requests.values()), grants=list(grants.values()))


def _closed(run: Run, open: dict[str, str], events: list[ev.AnyEvent]) -> list[Closing]:
    """Yield requests that wait no longer, with the verdict that closed them."""
    closed = list[Closing]()
    for event in events:
        call = event.decision.call if isinstance(event, ev.CallDecided) else getattr(event, "call", None)
        if call not in open:
            continue
        if isinstance(event, ev.CallDecided):
            decision = event.decision
            closed.append(Closing(open.pop(call), decision.verdict, decision.at, decision.by or ""))
        elif isinstance(event, ev.CallVoided | ev.CallAskedAgain):
            closed.append(Closing(open.pop(call), "void", run.now))
    if any(isinstance(event, _SWEEPING) for event in events):
        gone = [call for call in open if call not in run.groups["wait"] or run.status == "cancelled"]
        closed += [Closing(open.pop(call), "void", run.now) for call in gone]
    return closed


def _grants(run: Run, events: list[ev.AnyEvent]) -> list[GrantRow]:
    given = {event.grant.id: event.grant for event in events if isinstance(event, ev.GrantGiven)}
    used = {event.grant for event in events if isinstance(event, ev.GrantUsed)} - given.keys()
    terms = given | {name: run.grants[name] for name in used if name in run.grants}
    return [_grant(run, each) for each in terms.values()]


def _grant(run: Run, terms: ev.GrantTerms) -> GrantRow:
    tool = str(run.tools.get(terms.tool, {}).get("name", terms.tool))
    body = as_text(terms)
    return GrantRow(terms.id, run.id, tool, terms.agent, body, run.grant_uses.get(terms.id, 0))


def known_open(run: Run) -> dict[str, str]:
    """Return the open requests of a run that was loaded, under the ids that a store knows."""
    return {call_id: request_id(run, call_id) for call_id in run.groups["wait"]}
