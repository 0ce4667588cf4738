"""Derive what the world owes a run from its state alone: `pending`.

Restart, resume and replay are the same thing: fold the log and ask `pending`. It walks what is open,
never what happened. An effect names what to do and on what; doing it reports back as a command.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .gate.expiry import stale_at
from .run import Call, Frame, Run
from .states import READY, SETTLED


class Effect(NamedTuple):
    """Names one thing to be done: `do` on the frame or call `on`.

    `do` is one of: guard, model, exhausted, tripped, judge (on a frame); screen, run, settle (on a call); return (what
    a call took of a limit and did not use). The engine adds `limited` (on a frame) where a usage limit holds a question
    back.
    """

    do: str
    on: str


def pending(run: Run, *, first: bool = False) -> list[Effect]:
    """Return everything the world should be doing for this run now; empty where only people can move it.

    With `first` it is whether there is anything: of many calls it looks no further than to one that runs. A run that
    failed is moved by nothing but a resume, whatever else is recorded in it.
    """
    if run.drill is not None:  # nothing is ever done for a drill
        return []
    effects: list[Effect] = [Effect("return", owed) for owed in run.owed] if run.owed else []
    if run.status != "running":
        return effects
    for frame in run.frames.values():
        for do in _of_frame(run, frame):
            effects.append(Effect(do, frame.id))
    groups = run.groups
    for do in ("screen", "settle"):
        for call_id in groups[do]:
            effects.append(Effect(do, call_id))
    for call in groups["run"].values():
        if first and effects:
            break
        frame = run.frames[call.frame]
        if call.recheck:
            effects.append(Effect("screen", call.id))
        elif not frame.guarding and frame.tripped is None and comes_next(run, call):
            effects.append(Effect("run", call.id))
    return effects


def comes_next(run: Run, call: Call) -> bool:
    """Return whether a call runs now, and not after its siblings, where there is a barrier.

    One that the provider runs is started with the question that holds it: see `sent_along`. One that a caller outside
    carries out is started as it is claimed.
    """
    if call.proposal.claimed:
        return False
    frame = run.frames[call.frame]
    if not frame.barrier:
        return True
    if call.proposal.by_provider:
        return False
    return not call.proposal.last or frame.open == frame.last + frame.along


def sent_along(run: Run, frame: Frame) -> list[Call]:
    """Return the calls that the provider runs while it answers the next question: none while anything holds that back.

    All other calls of the reply have their results then, so that what is checked at the start is checked as it is sent.
    """
    if not frame.barrier or not frame.along or frame.open != frame.along:
        return []
    calls = [call for name in frame.calls if (call := run.calls[name]).state not in SETTLED]
    free = all(call.state in (*READY, "started") and not call.recheck for call in calls)
    return calls if free and not frame.guarding and frame.tripped is None else []


def _of_frame(run: Run, frame: Frame) -> list[str]:
    if frame.tripped is not None:
        return ["tripped"]
    does: list[str] = ["guard"] if frame.guarding else []
    if frame.guarding in ("before", "ahead"):
        return does
    if not frame.barrier:  # its model speaks by itself; what there is to do is what it calls
        return does
    sends = sent_along(run, frame) if frame.phase == "calls" else []
    if frame.phase == "model" or (sends and all(call.state in READY for call in sends)):
        full = frame.max_turns is not None and frame.turn >= frame.max_turns
        if not (full and frame.guarding):
            does.append("exhausted" if full else "model")
    elif frame.phase == "judge" and not frame.guarding:
        does.append("judge")
    return does


def wakes_at(run: Run) -> int | None:
    """Return when the clock next changes something by itself: a request expires, or a warning is due.

    Of a cancelled run nothing waits any more, and a caller outside may have a call still.
    """
    if run.status in ("new", "finished"):
        return None
    waits = run.groups["wait"].values()
    ends = [call.expires_at for call in waits if call.state == "asked"]
    warnings = [call.warns_at for call in waits if call.state == "asked"]
    drill = [] if run.drill is None or run.status == "cancelled" else [run.drill]
    for call in run.groups["started"].values():
        if call.held_until is not None:
            ends.append(call.held_until)
    for call in run.groups["run"].values():
        if call.proposal.claimed:
            ends.append(stale_at(call))
    return min(
        [*drill, *(at + 1 for at in ends if at is not None), *(at for at in warnings if at is not None)], default=None
    )


def at_work(run: Run) -> Iterator[Call]:
    """Yield the started calls whose tools are at work here: neither a nested agent nor a caller outside has them."""
    for call in run.groups["started"].values():
        if call.id not in run.frames and not call.proposal.claimed:
            yield call


def waiting(run: Run) -> bool:
    """Return whether a person is waited for and nothing else can be done or is being done."""
    busy = any(call_id not in run.frames for call_id in run.groups["started"])
    return bool(run.groups["wait"]) and run.status != "cancelled" and not busy and not pending(run, first=True)
