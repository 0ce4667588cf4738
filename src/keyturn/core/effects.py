"""Derive what the world owes a run from its state alone: `pending`.

Restart, resume and replay are the same thing: fold the log and ask `pending`. It walks what is open,
never what happened. An effect names what to do and on what; doing it reports back as a command.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .run import Call, Frame, Run
from .states import READY


class Effect(NamedTuple):
    """Names one thing to be done: `do` on the frame or call `on`.

    `do` is one of: guard, model, exhausted, tripped, judge (on a frame); screen, run, settle (on a call); return (what
    a call took of a limit and did not use). The engine adds `limited` (on a frame) where a usage limit holds a question
    back.
    """

    do: str
    on: str


def pending(run: Run) -> list[Effect]:
    """Return everything the world should be doing for this run now; empty where only people can move it.

    A run that failed is moved by nothing but a resume, whatever else is recorded in it.
    """
    if run.drill is not None:  # nothing is ever done for a drill
        return []
    effects: list[Effect] = [Effect("return", owed) for owed in run.owed] if run.owed else []
    if run.status != "running":
        return effects
    for frame in run.frames.values():
        for do in _of_frame(frame):
            effects.append(Effect(do, frame.id))
    groups = run.groups
    for do in ("screen", "settle"):
        for call_id in groups[do]:
            effects.append(Effect(do, call_id))
    for call in groups["run"].values():
        frame = run.frames[call.frame]
        if call.recheck:
            effects.append(Effect("screen", call.id))
        elif not frame.guarding and frame.tripped is None and comes_next(run, call):
            effects.append(Effect("run", call.id))
    return effects


def comes_next(run: Run, call: Call) -> bool:
    """Return whether a call runs now, and not after its siblings, where there is a barrier.

    One that the provider carries out acts with the next question to the model: it waits until no sibling holds that
    question back, so that what is checked at its start is checked then.
    """
    frame = run.frames[call.frame]
    if not frame.barrier:
        return True
    if call.proposal.last and frame.open != frame.last:
        return False
    return not call.proposal.elsewhere or not any(_holds_back(other) for other in _siblings(run, call))


def _siblings(run: Run, call: Call) -> Iterator[Call]:
    """Yield the other calls of the reply that have no result yet."""
    for group in run.groups.values():
        yield from (other for other in group.values() if other.frame == call.frame and other.id != call.id)


def _holds_back(call: Call) -> bool:
    """Return whether the model is not asked before this call has something else than its turn to wait for."""
    if call.proposal.elsewhere:
        return call.recheck or call.state not in (*READY, "started")
    return not call.proposal.last or call.recheck or call.state not in READY


def _of_frame(frame: Frame) -> list[str]:
    if frame.tripped is not None:
        return ["tripped"]
    does: list[str] = ["guard"] if frame.guarding else []
    if frame.guarding in ("before", "ahead"):
        return does
    if not frame.barrier:  # its model speaks by itself; what there is to do is what it calls
        return does
    if frame.phase == "model":
        full = frame.max_turns is not None and frame.turn >= frame.max_turns
        if not (full and frame.guarding):
            does.append("exhausted" if full else "model")
    elif frame.phase == "judge" and not frame.guarding:
        does.append("judge")
    return does


def wakes_at(run: Run) -> int | None:
    """Return when the clock next changes something by itself: a request expires, or a warning is due."""
    if run.status in ("new", "finished", "cancelled"):
        return None
    waits = run.groups["wait"].values()
    ends = [call.expires_at for call in waits if call.state == "asked"]
    warnings = [call.warns_at for call in waits if call.state == "asked"]
    drill = [] if run.drill is None else [run.drill]
    return min(
        [*drill, *(at + 1 for at in ends if at is not None), *(at for at in warnings if at is not None)], default=None
    )


def waiting(run: Run) -> bool:
    """Return whether a person is waited for and nothing else can be done or is being done."""
    at_work = any(call_id not in run.frames for call_id in run.groups["started"])
    return bool(run.groups["wait"]) and run.status != "cancelled" and not at_work and not pending(run)
