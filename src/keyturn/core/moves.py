"""How calls move: from state to state, from group to group, and past the barrier when a reply is settled.

The table in `states.py` says which moves there are; this is the one place that makes them.
"""

from __future__ import annotations

from msgspec.structs import replace

from . import events as ev
from .items import Item, own_copy
from .run import Call, Frame, Let, Run
from .states import GROUPS, MOVES, READY, SETTLED


def move(run: Run, call: Call, verb: str) -> None:
    before, after = call.state, MOVES[call.state, verb]
    call.state = after
    group, target = GROUPS.get(before), GROUPS.get(after)
    if group != target:
        if group is not None:
            run.groups[group].pop(call.id, None)
        if target is not None:
            run.groups[target][call.id] = call
    if after in READY:
        let_run(run, call)
    elif after == "started":
        call.begun = True
    elif after == "did_not_run" or (after in ("failed", "proposed") and not call.begun):
        _take_back(run, call)
    if after in SETTLED:
        _settled(run, call)


def let_run(run: Run, call: Call) -> None:
    """Count a call as one that runs, once, from when nothing more is asked about it."""
    if call.let is None and not call.recheck:
        call.let = noted(run, call)
        run.let.append(call.let)


def noted(run: Run, call: Call) -> Let:
    """A call as policies that count are told of it later."""
    return Let(call.id, call.agent, call.proposal, call.text, run.now)


def _take_back(run: Run, call: Call) -> None:
    """It was let run and did not: what was counted is counted off, in its own order."""
    if call.let is not None:
        run.let.append(replace(call.let, sign=-1))
        call.let = None


def _settled(run: Run, call: Call) -> None:
    frame = run.frames[call.frame]
    frame.open -= 1
    frame.last -= call.proposal.last
    if call.item is not None and frame.prefix is not None:
        frame.tape.append(call.item)
    if frame.open == 0:
        done = [run.calls.pop(call_id) for call_id in frame.calls]
        frame.items += [call.item for call in done if call.item is not None]
        read_in(frame, frame.queued)
        frame.calls, frame.queued = [], []
        frame.results = done if frame.judged else []
        frame.phase = "judge" if frame.judged else "model"


def open_calls(run: Run, frame: Frame, event: ev.ReplyRecorded) -> None:
    opened: list[Call] = []
    for index, proposal in enumerate(event.proposals):
        # Its own: the conversation holds the item too, and sessions, filters and models are handed that one.
        raw = own_copy(event.output[proposal.item])
        call = Call(f"{frame.id}/{frame.turn}.{index}", frame.id, frame.agent, raw, proposal)
        opened.append(call)
        if proposal.last:
            frame.last += 1
        run.calls[call.id] = call
        frame.calls.append(call.id)
    for call in opened:
        if call.proposal.refused is not None:
            call.item = call.proposal.refused
            move(run, call, "refuse")
        elif call.proposal.gate == "allow":
            move(run, call, "allow")
        else:
            run.groups["screen"][call.id] = call


def drop_below(run: Run, frame: str) -> None:
    """Forget what was still open inside a frame that ends: its calls and the frames they opened."""
    below = frame + "/"
    for call_id in [call_id for call_id in run.calls if call_id.startswith(below)]:
        call = run.calls.pop(call_id)
        if not call.begun:
            _take_back(run, call)
        group = GROUPS.get(call.state)
        if group is not None:
            run.groups[group].pop(call_id, None)
    for inner in [name for name in run.frames if name.startswith(below)]:
        del run.frames[inner]


def read_in(frame: Frame, items: list[Item]) -> None:
    """Put items where the next model call reads them, and into the session in that same order."""
    frame.items.extend(items)
    if frame.prefix is not None:
        frame.tape.extend(items)
