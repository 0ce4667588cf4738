"""A run as the reference shows it, to compare the two, and whether it goes on."""

from __future__ import annotations

from typing import Any

from msgspec.structs import astuple

from keyturn.core import events as ev
from keyturn.core.effects import pending, waiting
from keyturn.core.run import Call, Run
from keyturn.core.states import WAITING


def view(run: Run) -> dict[str, Any]:
    """What the reference knows of a run."""
    return {
        "status": run.status,
        "usage": list(astuple(run.usage)),
        "frames": {
            name: (frame.agent, frame.turn, frame.items, frame.queued, frame.tripped is not None)
            for name, frame in run.frames.items()
        },
        "calls": {name: (call.state, call.text, call.recheck, call.revision) for name, call in run.calls.items()},
        "waits": {name: seen(call) for name, call in run.calls.items() if call.state in WAITING and not over(run)},
        "grants": run.grant_uses,
        "reviews": {name: (each.revision, list(each.deciders), what(each.said)) for name, each in run.reviews.items()},
    }


def what(said: ev.ReviewGiven | None) -> Any:
    return None if said is None else (said.decider.id, said.verdict, said.note)


def seen(call: Call) -> Any:
    marks = {("snooze", by): mark.until for by, mark in call.snoozes.items()}
    if call.claim is not None:
        marks["claim", call.claim.decider.id] = call.claim.until
    marks |= {("look", by): at for by, at in call.looks.items()}
    met = [(step.terms, sorted(vote.by or "" for vote in step.votes)) for step in call.met]
    return (call.terms, call.asked_at, sorted(call.votes), call.warned, marks, met, len(call.withdrawn))


def over(run: Run) -> bool:
    return run.status in ("finished", "cancelled")


def assert_goes_on(run: Run) -> None:
    """Open but nothing pending is a failure: something is to be done, is being done, or a person is waited for.

    A person resumes what failed.
    """
    at_work = any(call_id not in run.frames for call_id in run.groups["started"])
    by_itself = any(not frame.barrier for frame in run.frames.values())
    has_not_begun = run.status == "new" or run.queued or run.drill is not None
    stopped = over(run) or run.status == "failed"
    assert pending(run) or waiting(run) or at_work or stopped or has_not_begun or by_itself
    assert not (stopped and pending(run))
