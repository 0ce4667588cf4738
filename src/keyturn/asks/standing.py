"""Say how the request of an external caller stands, from its run's log alone."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ..core.call_ids import ROOT, call_id
from ..core.codec import Log
from ..core.encodable import moment
from ..core.errors import RunMissing
from ..core.evolve import evolve
from ..core.gate.expiry import stale, stale_at
from ..core.run import Call, allowed_by, call_digest, new_run, request_id, undo_until
from ..core.states import OVER, READY, SETTLED, TO_SETTLE, State
from .ask import AskedBy, AskState, Status

#: The one call of such a run.
CALL = call_id(ROOT, 1, 0)
#: What stands for no result in the words of a call; a result that is this text has it as its value, too.
NOTHING = "null"
_ENDS: dict[str, Status] = {
    "denied": "rejected",
    "rejected": "rejected",
    "expired": "expired",
    "answered": "answered",
    "ran": "succeeded",
    "did_not_run": "not_run",
    "in_doubt": "in_doubt",
    "started": "claimed",
    "finished": "succeeded",
    "failed": "failed",
}


def asked_by(log: Log) -> AskedBy:
    """Return what a run was asked, and by which account; `RunMissing` for a run of another kind."""
    asked = AskedBy.read(log.run.input)
    if asked is None:
        raise RunMissing(log.run.id)
    return asked


def state_of(log: Log) -> AskState:
    """Return how a request stands."""
    run, asked = log.run, asked_by(log).ask
    ended = _last_seen(log)
    made = AskState(id=run.id, key=asked.key, tool=asked.tool, status="pending", arguments=asked.arguments)
    if ended is None:
        return msgspec.structs.replace(made, status="withdrawn") if run.status in OVER else made
    call = ended.call
    decision = allowed_by(call) or call.decision
    return msgspec.structs.replace(
        made,
        status=_status(log, ended),
        digest=call_digest(run, call),
        arguments=call.text,
        edited=call.edited,
        request=request_id(run, CALL),
        asked=1 + call.asks,
        reason=call.reason,
        note="" if call.decision is None else call.decision.message or "",
        decided_by="" if decision is None else decision.by or "",
        decided_at=_at(None if decision is None else decision.at),
        expires_at=_at(call.expires_at if call.state == "asked" else None),
        undo_until=_at(undo_until(call) if call.state in READY and run.status not in OVER else None),
        execute_by=_at(stale_at(call) if call.state in READY else None),
        claimed_by=call.started_by,
        claimed_until=_at(call.held_until if call.state == "started" else None),
        attempts=run.started,
        result=_result(ended),
    )


def _at(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else moment(milliseconds)


def _status(log: Log, ended: _Ended) -> Status:
    run, (call, state) = log.run, ended
    if state in READY:
        if run.status in OVER:
            return "withdrawn"
        return "pending" if call.recheck or stale(run, call) else "approved"
    if state in ("proposed", "asked"):
        return "withdrawn" if run.status in OVER else "pending"
    if state == "denied" and call.by == "clock":
        return "expired"  # it was approved, and not claimed in time
    return _ENDS[state]


def _result(ended: _Ended) -> Any:
    """Return the result of a call: what its caller reported, or what a person gave in its place."""
    call, state = ended
    if state in ("answered", "ran"):
        return None if call.decision is None else call.decision.output
    if state not in SETTLED:
        return None
    if call.value is not None or call.item is None:
        return call.value
    words = call.item.get("output")
    return None if words == NOTHING else words


class _Ended(NamedTuple):
    """Holds the call of a run as it was last, and the state in which it was before it had its result."""

    call: Call
    state: State


def _last_seen(log: Log) -> _Ended | None:
    """Return the call of a run; one that went on, or is over, has dropped it."""
    call = log.run.calls.get(CALL)
    if call is not None:
        return _Ended(call, call.state)
    run, state = new_run(), "proposed"
    for step in log.steps:
        run.now = max(run.now, step.at)
        for event in step.events:
            evolve(run, event)
            call = run.calls.get(CALL, call)
            if call is not None and not (call.state in SETTLED and state in TO_SETTLE):
                state = call.state
    return None if call is None else _Ended(call, state)
