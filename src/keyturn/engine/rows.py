"""What a step changes in the rows of a store: the run at a glance, requests opened and closed, grants.

Derived from the run as it stands after the step and from the step's events; a projection, never a second truth.
Whoever appends to a journal sends these along, so that they are written in the same transaction.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core import events as ev
from ..core.codec import Log, as_text
from ..core.effects import waiting
from ..core.evolve import fold
from ..core.gate import OVER
from ..core.run import Call, Run, request_id
from ..journal.rows import Changes, Closing, GrantRow, RequestRow, RunRow
from .graph import Graph
from .live import Live, wrapped
from .project import approval_item

# After these a call may have begun to wait; after those it waits no longer, and it is named; after these any may not.
_OPENING = (ev.CallScreened, ev.CallNeeds, ev.CallLost)
_SWEEPING = (ev.FrameClosed, ev.RunCancelled)


def run_row(run: Run, started_at: int) -> RunRow:
    """A run at a glance."""
    status = "waiting" if run.status == "running" and waiting(run) else run.status
    asks = len(run.groups["wait"]) if run.status in ("running", "failed") else 0
    workflow = str(run.about.get("workflow", ""))
    return RunRow(run.id, run.root_agent, status, started_at, run.now, asks, run.turns, workflow, run.error)


def opened_by(run: Run, events: list[ev.AnyEvent]) -> list[Call]:
    """The calls that wait since these events."""
    named = dict.fromkeys(event.call for event in events if isinstance(event, _OPENING))
    return [call for call_id in named if (call := run.groups["wait"].get(call_id)) is not None]


def changes(live: Live, events: list[ev.AnyEvent], tools: dict[str, Any], started_at: int) -> Changes:
    """What a step that was just folded changes. `tools` are those of the calls that wait since, for their previews."""
    run = live.run
    closed = _closed(live, events)
    opened = [_request(live, call, tools.get(call.id)) for call in opened_by(run, events)]
    if run.status in OVER:  # what was in flight is in doubt for good: it is shown, and nobody can settle it any more
        opened = [msgspec.structs.replace(row, state="void", closed_at=run.now) for row in opened]
    else:
        live.open.update((row.call, row.id) for row in opened)
    revoked = [event.grant for event in events if isinstance(event, ev.GrantRevoked)]
    return Changes(run_row(run, started_at), opened, closed, _grants(run, events), revoked)


def replayed(steps: list[ev.Step], graph: Graph, tools: dict[str, Any]) -> Changes:
    """Everything about a run that no store knows yet, made of its log; `tools` are those of the calls that wait."""
    live = Live(Log(), graph, wrapped(None))
    requests, grants = dict[str, RequestRow](), dict[str, GrantRow]()
    for made in steps:
        fold(live.run, [made])
        change = changes(live, made.events, tools, steps[0].at)
        for end in change.closed:
            requests[end.id] = requests[end.id].ended(end)
        requests.update((row.id, row) for row in change.opened)
        grants.update((row.id, row) for row in change.grants)
        for name in change.revoked:
            grants[name] = msgspec.structs.replace(grants[name], revoked=True)
    return Changes(run_row(live.run, steps[0].at), list(requests.values()), grants=list(grants.values()))


def _closed(live: Live, events: list[ev.AnyEvent]) -> list[Closing]:
    """Requests that wait no longer, with the word that closed them."""
    run, closed = live.run, list[Closing]()
    for event in events:
        call = event.decision.call if isinstance(event, ev.CallDecided) else getattr(event, "call", None)
        if call not in live.open or isinstance(event, ev.CallNeeds):
            continue
        if isinstance(event, ev.CallDecided):
            decision = event.decision
            closed.append(Closing(live.open.pop(call), decision.verdict, decision.at, decision.by or ""))
        elif isinstance(event, ev.CallVoided):
            closed.append(Closing(live.open.pop(call), "void", run.now))
    if any(isinstance(event, _SWEEPING) for event in events):
        gone = [call for call in live.open if call not in run.groups["wait"] or run.status == "cancelled"]
        closed += [Closing(live.open.pop(call), "void", run.now) for call in gone]
    return closed


def _request(live: Live, call: Call, tool: Any) -> RequestRow:
    item = approval_item(live.run, call, live.graph.agent(call.agent), tool)
    shown = {
        "label": call.proposal.label,
        "arguments": item.arguments,
        "params": item.params,
        "preview": item.preview,
        "requests": item.requests,
        "terms": call.terms,
        "difference": item.difference,
    }
    body = as_text({name: value for name, value in shown.items() if value is not None})
    return RequestRow(
        id=item.request_id,
        run=live.run.id,
        call=call.id,
        kind=item.kind,
        tool=call.proposal.name,
        agent=call.agent,
        digest=item.digest,
        asked_at=call.asked_at or live.run.now,
        expires_at=item.expires_at,
        reason=call.reason,
        risk=(tool.risk or "") if tool is not None else "",
        body=body,
    )


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
    """The requests of a run that was loaded: what waits, under the ids that a store knows."""
    return {call_id: request_id(run, call_id) for call_id in run.groups["wait"]}
