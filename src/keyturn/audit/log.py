"""The laws of a whole log: a run begins once and ends once, its agents come and go, and the model waits for results.

With `gate.py` this is the automaton that a log must pass line by line. It keeps what is open, not what happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..core import events as ev
from .calls import Broken, Call, need
from .gate import Gate

# What may still be said of a run that is over: what became of what was in flight, and what is no act of the run.
_AFTER = (ev.CallFinished, ev.CallLost, ev.SessionWritten, ev.ContextSaved, ev.GrantRevoked, ev.GuardrailReported)


@dataclass
class _Frame:
    """An agent at work: its guardrails, the calls of its last reply, and whose turn it is.

    `phase` is model, calls or judge. `judged` says that the agent looks at the results of its calls before its model.
    """

    agent: str
    guarded: str
    phase: str = "model"
    judged: bool = False
    turn: int = 0
    tripped: bool = False
    calls: list[str] = field(default_factory=list[str])


class LogAutomaton(Gate):
    """Reads the steps of one run in order; `read` raises `Broken` where the log breaks a promise.

    >>> automaton = LogAutomaton("run")
    >>> automaton.read(ev.Step(5, [ev.CallStarted("r/1.0")]))
    Traceback (most recent call last):
    ...
    keyturn.audit.calls.Broken: I8: the log does not begin with the start of its run
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.salt = name, ""
        self.frames: dict[str, _Frame] = {}
        self.tools: dict[str, Any] = {}
        self._answered: str | None = None

    def read(self, step: ev.Step) -> None:
        """Take in one step, whole."""
        need(step.events, "I8", "a step is recorded in which nothing happened")
        self.now = max(self.now, step.at)
        for event in step.events:
            self._take(event)
        need(self.owed is None, "I1", "a standing decision decided a call and was not counted")
        need(self._answered is None, "I8", "a nested agent ended and its call has no result")

    def _take(self, event: ev.AnyEvent) -> None:
        began = isinstance(event, ev.RunStarted)
        need(self.run or began, "I8", "the log does not begin with the start of its run")
        if self.owed is not None and not isinstance(event, ev.GrantUsed):
            raise Broken("I1", "a standing decision decided a call and was not counted")
        if self.over and not isinstance(event, _AFTER):
            acts = isinstance(event, ev.CallStarted)
            raise Broken("I7" if acts else "I8", f"{type(event).__name__} after the end of the run")
        law = _LAWS.get(type(event))
        if law is not None:
            law(self, event)

    # The run and its frames ----------------------------------------------------------------------------------------

    def began(self, event: ev.RunStarted) -> None:
        need(not self.run, "I8", "the run starts a second time")
        need(event.run == self.name, "I8", "the log is of another run")
        self.run, self.salt = event.run, event.salt

    def ended(self, _event: ev.RunCancelled) -> None:
        self.over = True

    def opened(self, event: ev.FrameOpened) -> None:
        root = event.frame == ev.ROOT
        need(event.frame not in self.frames, "I8", f"an agent begins on {event.frame} where one is at work")
        running = root or self.at(event.frame).place == "running"
        need(running, "I1", f"a nested agent answers call {event.frame}, which has not started")
        self.frames[event.frame] = _Frame(event.agent, event.guarded)

    def closed(self, event: ev.FrameClosed) -> None:
        frame = self._frame(event.frame)
        answered = event.error or not self._open(event.frame)
        need(answered, "I6", f"the agent of {event.frame} answers while calls of it are open")
        told = event.error or frame.phase == "judge" or event.frame == ev.ROOT
        need(told, "I8", f"the agent of {event.frame} answers what its model never said")
        below = event.frame + "/"
        for name in [name for name in self.calls if name.startswith(below)]:
            vanished = self.calls[name].place == "running" and name not in self.frames
            need(not vanished, "I2", f"call {name} was running when its agent was ended, and nobody knows what became")
            del self.calls[name]
        self.frames = {name: frame for name, frame in self.frames.items() if not name.startswith(below)}
        if event.frame == ev.ROOT:
            self.over = True
        else:
            del self.frames[event.frame]
            self._answered = event.frame

    def reported(self, event: ev.GuardrailReported) -> None:
        frame = self.frames.get(event.on)
        if frame is not None:
            need(not frame.tripped, "I7", f"a tripwire of {event.on} is taken back")
            frame.guarded, frame.tripped = "", any(report.tripped for report in event.reports)

    def handed_off(self, event: ev.HandedOff) -> None:
        frame = self._frame(event.frame)
        need(not self._open(event.frame), "I6", f"{event.frame} is handed over while calls of it are open")
        frame.agent, frame.phase, frame.judged = event.agent, "model", False

    def judged(self, event: ev.ToolsJudged) -> None:
        frame = self._frame(event.frame)
        need(frame.phase == "judge", "I8", f"the results of {event.frame} are judged and there are none")
        frame.phase, frame.judged = "model", False

    def added(self, event: ev.InputAdded) -> None:
        frame = self._frame(event.frame)
        if frame.phase == "judge" and not frame.judged:  # who answers an answer asks for another
            frame.phase = "model"

    def replied(self, event: ev.ReplyRecorded) -> None:
        frame = self._frame(event.frame)
        need(not self._open(event.frame), "I6", f"the model of {event.frame} is asked while calls of it are open")
        need(frame.phase == "model", "I8", f"the model of {event.frame} answers and was not asked")
        need(frame.guarded != "before", "I7", f"the model of {event.frame} is asked before its guardrails reported")
        labels = {proposal.label for proposal in event.proposals}
        need(len(labels) == len(event.proposals), "I4", f"two calls of {event.frame} bear one name")
        frame.turn += 1
        frame.judged = event.judged and bool(event.proposals)
        frame.phase = "calls" if event.proposals else "judge"
        self.tools.update(event.tools)
        frame.calls = [f"{event.frame}/{frame.turn}.{place}" for place in range(len(event.proposals))]
        for name, proposal in zip(frame.calls, event.proposals, strict=True):
            need(0 <= proposal.item < len(event.output), "I8", f"call {name} is in no reply of its model")
            call = Call(name, event.frame, frame.agent, event.output[proposal.item], proposal)
            call.propose(proposal)
            if proposal.gate == "allow" and call.place == "new":
                call.place = "ready"
            self.calls[name] = call
        if event.proposals:
            self._forget(frame)

    def remade(self, event: ev.CallVoided) -> None:
        self.tools.update(event.tools)
        self.voided(event)

    def answered(self, event: ev.CallFinished) -> None:
        if self._answered is not None:
            need(event.call == self._answered, "I8", "a nested agent ended and another call has its result")
            self._answered = None
        self.finished(event)

    def about(self, event: ev.SessionWritten) -> None:
        self._frame(event.frame)

    # What the gate asks --------------------------------------------------------------------------------------------

    def framed(self, call: str) -> bool:
        return call in self.frames

    def may_run(self, call: Call) -> str:
        frame = self._frame(call.frame)
        if frame.guarded or frame.tripped:
            return "and its agent's guardrails have not let it"
        early = call.proposal.last and not all(other.proposal.last for other in self._open(call.frame))
        return "before its siblings had their results" if early else ""

    def settled(self, call: Call) -> None:
        self._forget(self._frame(call.frame))

    def _frame(self, name: str) -> _Frame:
        frame = self.frames.get(name)
        if frame is None:
            raise Broken("I8", f"something happened in {name}, where no agent is at work")
        return frame

    def _open(self, frame: str) -> list[Call]:
        return [call for name in self.frames[frame].calls if (call := self.calls[name]).place != "settled"]

    def _forget(self, frame: _Frame) -> None:
        """A reply of which every call has its result is done with."""
        if all(self.calls[name].place == "settled" for name in frame.calls):
            for name in frame.calls:
                del self.calls[name]
            frame.calls, frame.phase = [], "judge" if frame.judged else "model"


_LAWS: dict[type[Any], Callable[[LogAutomaton, Any], None]] = {
    ev.RunStarted: LogAutomaton.began,
    ev.RunCancelled: LogAutomaton.ended,
    ev.FrameOpened: LogAutomaton.opened,
    ev.FrameClosed: LogAutomaton.closed,
    ev.GuardrailReported: LogAutomaton.reported,
    ev.HandedOff: LogAutomaton.handed_off,
    ev.ReplyRecorded: LogAutomaton.replied,
    ev.InputAdded: LogAutomaton.added,
    ev.ToolsJudged: LogAutomaton.judged,
    ev.SessionWritten: LogAutomaton.about,
    ev.CallScreened: LogAutomaton.screened,
    ev.VoteCast: LogAutomaton.voted,
    ev.CallDecided: LogAutomaton.decided,
    ev.CallVoided: LogAutomaton.remade,
    ev.CallStarted: LogAutomaton.started,
    ev.CallNeeds: LogAutomaton.needed,
    ev.CallFinished: LogAutomaton.answered,
    ev.CallLost: LogAutomaton.lost,
    ev.GrantGiven: LogAutomaton.given,
    ev.GrantUsed: LogAutomaton.used,
    ev.GrantRevoked: LogAutomaton.taken_back,
}
