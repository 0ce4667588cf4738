"""Check the laws of a whole log: a run begins and ends once, its agents come and go, the model waits for results.

With `gate.py` this is the automaton that a log must pass line by line. It keeps what is open, not what happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import events as ev
from .calls import AuditedCall, Broken, need
from .drills import Drills
from .frames import AuditedFrame

# What may still be said of a run that is over: what became of what was in flight, and what is no act of the run.
_AFTER = (
    *(ev.CallFinished, ev.CallLost, ev.SessionWritten, ev.ContextSaved),
    *(
        ev.ReviewGiven,
        ev.GrantRevoked,
        ev.GrantLent,
        ev.GuardrailReported,
        ev.QuotaTaken,
        ev.QuotaReturned,
        ev.QuotaClosed,
    ),
)


class LogAutomaton(Drills):
    """Reads the steps of one run in order; `read` raises `Broken` where the log breaks a promise.

    >>> automaton = LogAutomaton("run")
    >>> automaton.read(ev.Step(5, [ev.CallStarted("r/1.0")]))
    Traceback (most recent call last):
    ...
    keyturn.audit.calls.Broken: I8: the log does not begin with the start of its run
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.root = ""
        self.tools: dict[str, Any] = {}
        self._answered: str | None = None

    def read(self, step: ev.Step) -> None:
        """Read one step, whole."""
        need(step.events, "I8", "the log has a line in which nothing happened")
        self.now = max(self.now, step.at)
        self.line += 1
        self.decided_now = []
        self.own_lines()
        for event in step.events:
            self._take(event)
        need(self.owed is None, "I1", "a grant decided a call and was not counted")
        need(self.withdrawn is None, "I1", "an approval was taken back, and its call could still run")
        self.owes_no_review(None)
        need(self._answered is None, "I8", "a nested agent ended and its call got no result")
        need(not self.forking, "I8", "a call asks anew as in a fork, and none begins")
        need(not self.restoring, "I2", "a call was treated as after a restored store, and the run was not restored")

    def _take(self, event: ev.AnyEvent) -> None:
        began = isinstance(event, ev.RunStarted)
        need(self.run or began, "I8", "the log does not begin with the start of its run")
        if self.owed is not None and not isinstance(event, ev.GrantUsed):
            raise Broken("I1", "a grant decided a call and was not counted")
        if self.over and not isinstance(event, _AFTER):
            acts = isinstance(event, ev.CallStarted)
            raise Broken("I7" if acts else "I8", f"the run had ended, and {type(event).__name__} was recorded")
        self.follows(event)
        self.owes_no_review(event)
        self.fits_drill(event)
        law = _LAWS.get(type(event))
        if law is not None:
            law(self, event)

    # The run and its frames ----------------------------------------------------------------------------------------

    def began(self, event: ev.RunStarted) -> None:
        """Check that the run starts once, and that the log is its own."""
        need(not self.run, "I8", "the run started a second time")
        need(event.run == self.name, "I8", "the log is that of another run")
        self.run = event.run
        self.bound_to = event.copied_from or event.run
        self.salt = event.salt
        self.requester = event.requester
        self.about = event.about
        self.drill = event.drill

    def queued(self, _event: ev.RunQueued) -> None:
        """Check that a run waits for its turn before it begins."""
        need(not self.root, "I8", "the run waits for its turn, and had begun")

    def ended(self, _event: ev.RunCancelled) -> None:
        """Record that the run is over."""
        self.over = True

    def opened(self, event: ev.FrameOpened) -> None:
        """Check that an agent begins to work where none is working yet."""
        root = event.frame == ev.ROOT
        need(
            event.frame not in self.frames,
            "I8",
            f"an agent began to work at {event.frame}, where one was working already",
        )
        self.root = event.agent if root else self.root
        running = root or self.at(event.frame).place == "running"
        need(running, "I1", f"a nested agent was to answer call {event.frame}, which had not started")
        self.frames[event.frame] = AuditedFrame(event.agent, event.guarded, barrier=event.barrier)

    def closed(self, event: ev.FrameClosed) -> None:
        """Check that an agent ends with no open calls, on an answer of its model or an error."""
        frame = self.frame(event.frame)
        answered = event.error or not frame.open
        need(answered, "I6", f"the agent of {event.frame} gave its answer while calls of it were open")
        told = event.error or frame.phase == "judge" or event.frame == ev.ROOT
        need(told, "I8", f"the agent of {event.frame} gave an answer that its model never gave")
        below = event.frame + "/"
        for name in [name for name in self.calls if name.startswith(below)]:
            unknown = self.calls[name].place in ("running", "doubt") and name not in self.frames
            need(not unknown, "I2", f"call {name} was dropped with its agent, and nobody knows what became of it")
            del self.calls[name]
        self.frames = {name: frame for name, frame in self.frames.items() if not name.startswith(below)}
        if event.frame == ev.ROOT:
            self.over = True
        else:
            del self.frames[event.frame]
            self._answered = event.frame

    def reported(self, event: ev.GuardrailReported) -> None:
        """Check that no report takes back a guardrail that stopped the agent."""
        frame = self.frames.get(event.on)
        if frame is not None:
            need(not frame.tripped, "I7", f"a guardrail of {event.on} had stopped the agent, and this was taken back")
            frame.guarded = ""
            frame.tripped = any(report.tripped for report in event.reports)

    def handed_off(self, event: ev.HandedOff) -> None:
        """Check that an agent hands over only without open calls."""
        frame = self.frame(event.frame)
        free = not frame.open or not frame.barrier
        need(free, "I6", f"{event.frame} was handed to another agent while calls of it were open")
        frame.agent = event.agent
        frame.phase = "model"
        frame.judged = False

    def compacted(self, event: ev.HistoryCompacted) -> None:
        """Check that a conversation is compacted only where its model is to be asked next."""
        frame = self.frame(event.frame)
        need(frame.phase == "model", "I8", f"the conversation of {event.frame} was compacted in the middle of a turn")

    def judged(self, event: ev.ToolsJudged) -> None:
        """Check that results are judged only when there is something to judge."""
        frame = self.frame(event.frame)
        need(frame.phase == "judge", "I8", f"the agent of {event.frame} judged results when there was nothing to judge")
        frame.phase = "model"
        frame.judged = False

    def added(self, event: ev.InputAdded) -> None:
        """Record a message that was added to the conversation."""
        frame = self.frame(event.frame)
        if frame.phase == "judge" and not frame.judged:  # who answers an answer asks for another
            frame.phase = "model"

    def replied(self, event: ev.ReplyRecorded) -> None:
        """Check that the model was asked, and its reply's calls."""
        frame = self.frame(event.frame)
        free = not frame.open or not frame.barrier
        need(free, "I6", f"the model of {event.frame} was asked while calls of it were open")
        need(frame.phase == "model", "I8", f"the model of {event.frame} answered and had not been asked")
        need(frame.guarded != "before", "I7", f"the model of {event.frame} was asked before its guardrails reported")
        labels = {proposal.label for proposal in event.proposals}
        need(len(labels) == len(event.proposals), "I4", f"two calls of {event.frame} have one id")
        frame.turn += 1
        self.tools.update(event.tools)
        if frame.barrier:
            frame.judged = event.judged and bool(event.proposals)
            frame.phase = "calls" if event.proposals else "judge"
            frame.calls = {}
        for place, proposal in enumerate(event.proposals):
            name = f"{event.frame}/{frame.turn}.{place}"
            need(0 <= proposal.item < len(event.output), "I8", f"call {name} is in no reply of its model")
            self._propose(frame, AuditedCall(name, event.frame, frame.agent, event.output[proposal.item], proposal))
        if event.proposals:
            self.forget(frame)

    def _propose(self, frame: AuditedFrame, call: AuditedCall) -> None:
        made = call.proposal
        call.propose(made)
        if call.place == "settled":  # it was refused before it came to the gate
            if frame.barrier:
                self.calls[call.id] = call
                frame.calls[call.id] = None
            return
        if made.gate == "allow":
            never = any(
                (grant.agent, grant.tool, grant.verdict) == (call.agent, made.tool, "reject")
                for grant in self.grants.values()
            )
            need(not never, "I7", f"call {call.id} was allowed unseen while a standing rejection is about its tool")
            call.place = "ready"
        frame.open += 1
        self.calls[call.id] = call
        frame.calls[call.id] = None

    def remade(self, event: ev.CallVoided) -> None:
        """Check a call that is proposed again because its tool changed."""
        self.tools.update(event.tools)
        self.voided(event)

    def answered(self, event: ev.CallFinished) -> None:
        """Check that a nested agent's answer goes to its own call, then the result."""
        if self._answered is not None:
            need(event.call == self._answered, "I8", "a nested agent ended and another call got its result")
            self._answered = None
        self.finished(event)

    def returned(self, event: ev.QuotaReturned) -> None:
        """Check that a call that did not run is counted no more, in the log that counted it."""
        self.given_back(event, self.run)

    def told_session(self, event: ev.SessionWritten) -> None:
        """Check that what was written to a session is of a frame at work."""
        self.frame(event.frame)


_LAWS: dict[type[Any], Callable[[LogAutomaton, Any], None]] = {
    ev.RunStarted: LogAutomaton.began,
    ev.RunQueued: LogAutomaton.queued,
    ev.RunCancelled: LogAutomaton.ended,
    ev.FrameOpened: LogAutomaton.opened,
    ev.FrameClosed: LogAutomaton.closed,
    ev.GuardrailReported: LogAutomaton.reported,
    ev.HandedOff: LogAutomaton.handed_off,
    ev.HistoryCompacted: LogAutomaton.compacted,
    ev.ReplyRecorded: LogAutomaton.replied,
    ev.InputAdded: LogAutomaton.added,
    ev.ToolsJudged: LogAutomaton.judged,
    ev.SessionWritten: LogAutomaton.told_session,
    ev.CallScreened: LogAutomaton.screened,
    ev.VoteCast: LogAutomaton.voted,
    ev.CallDecided: LogAutomaton.decided,
    ev.CallAskedAgain: LogAutomaton.asked_again,
    ev.CallMarked: LogAutomaton.marked,
    ev.CallLooked: LogAutomaton.looked,
    ev.ReviewAsked: LogAutomaton.review_asked,
    ev.ReviewGiven: LogAutomaton.review_given,
    ev.DrillEnded: LogAutomaton.drill_ended,
    ev.ApprovalWithdrawn: LogAutomaton.taken_from,
    ev.ExpiryNear: LogAutomaton.warned,
    ev.CallVoided: LogAutomaton.remade,
    ev.CallStarted: LogAutomaton.started,
    ev.CallNeeds: LogAutomaton.needed,
    ev.CallFinished: LogAutomaton.answered,
    ev.CallLost: LogAutomaton.lost,
    ev.GrantGiven: LogAutomaton.given,
    ev.GrantUsed: LogAutomaton.used,
    ev.GrantLent: LogAutomaton.lent_out,
    ev.GrantBorrowed: LogAutomaton.taken_over,
    ev.GrantRevoked: LogAutomaton.taken_back,
    ev.QuotaTaken: LogAutomaton.taken,
    ev.QuotaReturned: LogAutomaton.returned,
    ev.QuotaClosed: LogAutomaton.closed_for_new,
    ev.RunRestored: LogAutomaton.restored,
    ev.RunForked: LogAutomaton.forked,
}
