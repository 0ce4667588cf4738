"""Move calls: opened by a reply, from state to state, from group to group, past the barrier when the reply is settled.

The table in `states.py` says which moves there are; this is the one place that makes them.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from . import events as ev
from .approval import Approval
from .call_ids import call_id, is_below
from .counted import CountedCall
from .empties import NONE, owned
from .items import Item, own_copy
from .policy import Trouble
from .preview import Preview
from .quota import owe, tell_of
from .run import Call, Frame, Run, stated_terms
from .states import GROUPS, MOVES, READY, SETTLED
from .usage import NOTHING


def move(run: Run, call: Call, verb: str) -> None:
    """Move a call as the table says, into its new group, and past the barrier where it is settled."""
    before = call.state
    after = MOVES[before, verb]
    call.state = after
    group = GROUPS.get(before)
    target = GROUPS.get(after)
    if group != target:
        if group is not None:
            members = run.groups[group]
            if members.pop(call.id, None) is not None and not members:
                run.groups[group] = NONE
        if target is not None:
            _enter(run, target, call)
    if after in READY:
        let_run(run, call)
    elif after == "started":
        call.begun = True
        call.acted = call.acted or call.proposal.recover != "retry"
    elif after == "in_doubt":
        call.doubted = True
    elif after == "did_not_run" or (after in ("failed", "proposed") and not call.begun):
        _take_back(run, call)
    if after in SETTLED:
        _settled(run, call)


def _enter(run: Run, group: str, call: Call) -> None:
    members = run.groups[group]
    if members:
        members[call.id] = call
    else:
        run.groups[group] = {call.id: call}


def ask_before_acting(run: Run, call: Call, preview: Preview | None) -> None:
    """Let a started call ask for approval: its tool says that it has done nothing yet, and is called anew.

    What let it start counts no more. Where it had been in doubt before, it stays one that may have had an effect.
    """
    if call.edited:  # what a person made of the call stays as they made it
        call.proposal = replace(call.proposal, args=call.text, edited=True)
    call.acted = call.doubted and call.proposal.recover != "retry"
    call.decision = call.approval = call.cleared = call.need = None
    call.terms = asked_on(call)
    call.met = ()
    call.by = "tool"
    call.preview = preview
    call.warned = False
    call.asks += 1
    run.decided.pop(call.id, None)
    _take_back(run, call)
    move(run, call, "ask")


def asked_on(call: Call) -> Approval | None:
    """Return the terms on which a started call asks: those that it was let run on, else those of its tool."""
    return call.proposal.terms if call.terms is None else stated_terms(call)


def let_run(run: Run, call: Call) -> None:
    """Count a call as one that runs, once, from when nothing more is asked about it; once more with other arguments."""
    if not call.recheck and (call.let is None or call.let.text != call.text):
        call.let = noted(run, call)
        owned(run, "let").append(call.let)


def troubled(run: Run, call: Call, trouble: Trouble) -> None:
    """Count a call that did not go well, here and where several runs are counted."""
    owned(run, trouble).append(noted(run, call))
    tell_of(run, call, trouble)


def noted(run: Run, call: Call) -> CountedCall:
    """Make the entry of a call for policies that count."""
    return CountedCall(call.id, call.agent, call.proposal, call.text, run.now)


def _take_back(run: Run, call: Call) -> None:
    """Count off a call that was let run and did not, in its own place."""
    if call.let is not None:
        owe(run, call, call.let)
        owned(run, "let").append(replace(call.let, sign=-1))
        call.let = None


def runs_last(proposal: ev.Proposal) -> bool:
    """Return whether a call runs here, after its siblings; one that the provider runs is started with a question."""
    return proposal.last and not proposal.by_provider


def _settled(run: Run, call: Call) -> None:
    frame = run.frames[call.frame]
    frame.open -= 1
    frame.last -= runs_last(call.proposal)
    frame.along -= call.proposal.by_provider
    if not frame.barrier:  # its model reads each result as it comes
        del run.calls[call.id]
        frame.calls.remove(call.id)
        if call.item is not None:
            read_in(frame, [call.item])
        return
    if call.item is not None:
        frame.tape.append(call.item)
    if frame.open == 0:
        _pass_barrier(run, frame)


def _pass_barrier(run: Run, frame: Frame) -> None:
    """Give the model, or the agent that judges, the results of a reply in order, now that all calls have one."""
    done: list[Call] = []
    for name in frame.calls:
        call = run.calls.pop(name)
        done.append(call)
        if call.item is not None:
            frame.items.append(call.item)
    frame.calls = []
    if frame.queued:
        read_in(frame, frame.queued)
        frame.queued = []
        frame.unread = frame.judged
    frame.results = done if frame.judged else []
    frame.move("settle_for_judgement" if frame.judged else "settle")


def recorded(run: Run, event: ev.ReplyRecorded) -> None:
    """Put a reply behind what its model was asked, and open its calls."""
    frame = run.frames[event.frame]
    proposals = event.proposals
    frame.turn += 1
    frame.fresh = False
    frame.unread = False
    late = _not_heard(frame, event)
    read_in(frame, event.output)
    frame.sent = len(frame.items)
    frame.heard = frame.sent if event.heard is None or frame.barrier else event.heard
    frame.replied = len(event.output)
    frame.judged = event.judged and bool(proposals)
    frame.used_tools = frame.used_tools or bool(proposals)
    frame.invalid = _invalid(frame, event) if proposals and proposals[0].refused is not None else ()
    if event.response_id is not None:
        frame.response_id = event.response_id
    count(run, event)
    if event.tools:
        run.tools = {**run.tools, **event.tools} if run.tools else event.tools
    if frame.id == ev.ROOT:
        run.turns = frame.turn
        run.response_id = event.response_id or run.response_id
    if frame.barrier:
        frame.move("propose" if proposals else "reply")
    if late and proposals:
        frame.queued.extend(late)
    elif late:
        read_in(frame, late)
        frame.unread = True
    frame.open += len(proposals)
    open_calls(run, frame, event)


def _invalid(frame: Frame, event: ev.ReplyRecorded) -> tuple[str, ...]:
    """Return the replies in a row none of whose calls could be made, with this one: they are counted over restarts."""
    if any(proposal.refused is None for proposal in event.proposals):
        return ()
    return *frame.invalid, ", ".join(dict.fromkeys(proposal.name for proposal in event.proposals))


def _not_heard(frame: Frame, event: ev.ReplyRecorded) -> list[Any]:
    """Take out the messages that were added while the model was asked: its reply passed over them."""
    late = frame.items[event.heard :] if frame.barrier and event.heard is not None else []
    if late:
        del frame.items[event.heard :], frame.tape[-len(late) :]
    return late


def count(run: Run, event: ev.ReplyRefused | ev.ReplyRecorded | ev.HistoryCompacted) -> None:
    """Count a reply's usage, whatever became of the reply."""
    if event.usage != NOTHING:
        run.usage += event.usage
        run.replies.append((event.model, event.usage))


def open_calls(run: Run, frame: Frame, event: ev.ReplyRecorded) -> None:
    """Open the calls that a reply proposes."""
    opened: list[Call] = []
    for index, proposal in enumerate(event.proposals):
        name = call_id(frame.id, frame.turn, index)
        # Its own: the conversation holds the item too, and sessions, filters and models are handed that one.
        raw = own_copy(event.output[proposal.item])
        call = Call(name, frame.id, frame.agent, raw, proposal)
        run.key = run.key or proposal.key
        opened.append(call)
        frame.last += runs_last(proposal)
        frame.along += proposal.by_provider
        run.calls[name] = call
        frame.calls.append(name)
    for call in opened:
        if call.proposal.refused is not None:
            call.item = call.proposal.refused
            move(run, call, "refuse")
        elif call.proposal.gate == "allow":
            move(run, call, "allow")
        else:
            _enter(run, "screen", call)


def drop_below(run: Run, frame: str) -> None:
    """Drop what was still open inside a frame that ends: its calls and the frames they opened."""
    for name in [name for name in run.calls if is_below(name, frame)]:
        call = run.calls.pop(name)
        if not call.begun:
            _take_back(run, call)
        group = GROUPS.get(call.state)
        if group is not None:
            run.groups[group].pop(name, None)
    for inner in [name for name in run.frames if is_below(name, frame)]:
        del run.frames[inner]


def read_in(frame: Frame, items: list[Item]) -> None:
    """Put items where the next model call reads them, and into the session in that same order."""
    frame.items.extend(items)
    frame.tape.extend(items)
