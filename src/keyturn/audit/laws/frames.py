"""Check the laws of agents at work: they come and go, the model is asked in its turn, and waits for results."""

from __future__ import annotations

from ...core import events as ev
from ..calls import AuditedCall, need
from ..run import AuditedFrame, AuditedRun


def opened(audited: AuditedRun, event: ev.FrameOpened) -> None:
    """Check that an agent begins to work where none is working yet."""
    root = event.frame == ev.ROOT
    need(
        event.frame not in audited.frames,
        "I8",
        f"an agent began to work at {event.frame}, where one was working already",
    )
    audited.root = event.agent if root else audited.root
    running = root or audited.at(event.frame).place == "running"
    need(running, "I1", f"a nested agent was to answer call {event.frame}, which had not started")
    audited.frames[event.frame] = AuditedFrame(event.agent, event.guarded, barrier=event.barrier)


def closed(audited: AuditedRun, event: ev.FrameClosed) -> None:
    """Check that an agent ends with no open calls, on an answer of its model or an error."""
    frame = audited.frame(event.frame)
    answered = event.error or not frame.open
    need(answered, "I6", f"the agent of {event.frame} gave its answer while calls of it were open")
    told = event.error or frame.phase == "judge" or event.frame == ev.ROOT
    need(told, "I8", f"the agent of {event.frame} gave an answer that its model never gave")
    below = event.frame + "/"
    for name in [name for name in audited.calls if name.startswith(below)]:
        unknown = audited.calls[name].place in ("running", "doubt") and name not in audited.frames
        need(not unknown, "I2", f"call {name} was dropped with its agent, and its outcome is unknown")
        del audited.calls[name]
    audited.frames = {name: frame for name, frame in audited.frames.items() if not name.startswith(below)}
    if event.frame == ev.ROOT:
        audited.over = True
    else:
        del audited.frames[event.frame]
        audited.answered = event.frame


def reported(audited: AuditedRun, event: ev.GuardrailReported) -> None:
    """Check that no report takes back a guardrail that stopped the agent."""
    frame = audited.frames.get(event.on)
    if frame is not None:
        need(not frame.tripped, "I7", f"a guardrail of {event.on} had stopped the agent, and this was taken back")
        frame.guarded = ""
        frame.tripped = any(report.tripped for report in event.reports)


def handed_off(audited: AuditedRun, event: ev.HandedOff) -> None:
    """Check that an agent hands over only without open calls."""
    frame = audited.frame(event.frame)
    free = not frame.open or not frame.barrier
    need(free, "I6", f"{event.frame} was handed to another agent while calls of it were open")
    frame.agent = event.agent
    frame.phase = "model"
    frame.judged = False


def compacted(audited: AuditedRun, event: ev.HistoryCompacted) -> None:
    """Check that a conversation is compacted only where its model is to be asked next."""
    frame = audited.frame(event.frame)
    need(frame.phase == "model", "I8", f"the conversation of {event.frame} was compacted in the middle of a turn")


def judged(audited: AuditedRun, event: ev.ToolsJudged) -> None:
    """Check that results are judged only when there is something to judge."""
    frame = audited.frame(event.frame)
    need(frame.phase == "judge", "I8", f"the agent of {event.frame} judged results when there was nothing to judge")
    frame.phase = "model"
    frame.judged = False


def added(audited: AuditedRun, event: ev.InputAdded) -> None:
    """Record a message that was added to the conversation."""
    frame = audited.frame(event.frame)
    if frame.phase == "judge" and not frame.judged:  # who answers an answer asks for another
        frame.phase = "model"


def replied(audited: AuditedRun, event: ev.ReplyRecorded) -> None:
    """Check that the model was asked, and its reply's calls."""
    frame = audited.frame(event.frame)
    free = not frame.open or not frame.barrier
    need(free, "I6", f"the model of {event.frame} was asked while calls of it were open")
    need(frame.phase == "model", "I8", f"the model of {event.frame} answered and had not been asked")
    audited.unheard.discard(event.frame)
    need(frame.guarded != "before", "I7", f"the model of {event.frame} was asked before its guardrails reported")
    labels = {proposal.label for proposal in event.proposals}
    need(len(labels) == len(event.proposals), "I4", f"two calls of {event.frame} have one id")
    frame.turn += 1
    audited.tools.update(event.tools)
    if frame.barrier:
        frame.judged = event.judged and bool(event.proposals)
        frame.phase = "calls" if event.proposals else "judge"
        frame.calls = {}
    for place, proposal in enumerate(event.proposals):
        name = f"{event.frame}/{frame.turn}.{place}"
        need(0 <= proposal.item < len(event.output), "I8", f"call {name} is in no reply of its model")
        _propose(audited, frame, AuditedCall(name, event.frame, frame.agent, event.output[proposal.item], proposal))
    if event.proposals:
        forget(audited, frame)


def _propose(audited: AuditedRun, frame: AuditedFrame, call: AuditedCall) -> None:
    made = call.proposal
    call.propose(made)
    if call.place == "settled":  # it was refused before it came to the gate
        if frame.barrier:
            audited.calls[call.id] = call
            frame.calls[call.id] = None
        return
    if made.gate == "allow":
        never = any(
            (grant.agent, grant.tool, grant.verdict) == (call.agent, made.tool, "reject")
            for grant in audited.grants.values()
        )
        need(not never, "I7", f"call {call.id} was allowed unseen while a standing rejection is about its tool")
        call.place = "ready"
    frame.open += 1
    audited.calls[call.id] = call
    frame.calls[call.id] = None


def told_session(audited: AuditedRun, event: ev.SessionWritten) -> None:
    """Check that what was written to a session is of a frame at work."""
    audited.frame(event.frame)


def may_run(audited: AuditedRun, call: AuditedCall) -> str:
    """Return why a call may not start now because of what is around it; "" where it may."""
    if audited.failed:
        return "though its run had failed and was not resumed"
    frame = audited.frame(call.frame)
    if frame.guarded or frame.tripped:
        return "before its agent's guardrails let it"
    others = _unsettled(audited, frame) if frame.barrier else []
    early = call.proposal.last and not all(other.proposal.last or other.proposal.by_provider for other in others)
    early = early or (call.proposal.by_provider and not all(_sent_along(other) for other in others))
    return "before its siblings had their results" if early else ""


def _sent_along(call: AuditedCall) -> bool:
    """Return whether the question that is about to be asked may hold a call."""
    return call.proposal.by_provider and call.place in ("ready", "running") and not call.recheck


def owes_reply(audited: AuditedRun, event: ev.CallFinished) -> None:
    """Note a result of which only the reply can tell: that of a call which the provider ran as it answered."""
    call = audited.at(event.call)
    if call.proposal.by_provider and call.place == "running" and audited.frame(call.frame).barrier:
        audited.unheard.add(call.frame)


def settled(audited: AuditedRun, call: AuditedCall) -> None:
    """Record that a call has its result."""
    frame = audited.frame(call.frame)
    frame.open -= 1
    if not frame.barrier:  # its model reads each result as it comes
        del audited.calls[call.id]
        del frame.calls[call.id]
        return
    forget(audited, frame)


def forget(audited: AuditedRun, frame: AuditedFrame) -> None:
    """Drop a reply of which every call has its result."""
    if frame.open or not frame.barrier:
        return
    for name in frame.calls:
        del audited.calls[name]
    frame.calls = {}
    frame.phase = "judge" if frame.judged else "model"


def _unsettled(audited: AuditedRun, frame: AuditedFrame) -> list[AuditedCall]:
    return [call for name in frame.calls if (call := audited.calls[name]).place != "settled"]
