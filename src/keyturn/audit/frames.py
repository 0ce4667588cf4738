"""Track the agents at work in one run and their open calls, which all laws of a log look at.

Nothing is judged here. What is settled is forgotten, so that what is kept is what is open.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .calls import AuditedCall, Broken


@dataclass
class AuditedFrame:
    """Tracks an agent at work: its guardrails, its calls, and whose turn it is.

    `phase` is model, calls or judge. `judged` says that the agent looks at the results of its calls before its model.
    `calls` are those of the last reply, or without `barrier` those that are open; `open` counts those without a result.
    """

    agent: str
    guarded: str
    phase: str = "model"
    judged: bool = False
    turn: int = 0
    tripped: bool = False
    barrier: bool = True
    open: int = 0
    calls: dict[str, None] = field(default_factory=dict[str, None])


class Frames:
    """Holds what is open in one run.

    `starts` counts how often each call was started, those that are settled included.
    """

    def __init__(self) -> None:
        self.calls: dict[str, AuditedCall] = {}
        self.frames: dict[str, AuditedFrame] = {}
        self.starts: dict[str, int] = {}

    def at(self, name: str) -> AuditedCall:
        """Return a call that is open, or raise `Broken`."""
        call = self.calls.get(name)
        if call is None:
            ran = name in self.starts
            raise Broken("I2" if ran else "I8", f"something happened to call {name}, which is not open")
        return call

    def frame(self, name: str) -> AuditedFrame:
        """Return a frame in which an agent is at work, or raise `Broken`."""
        frame = self.frames.get(name)
        if frame is None:
            raise Broken("I8", f"something happened in {name}, where no agent was at work")
        return frame

    def framed(self, call: str) -> bool:
        """Return whether a nested agent answers a call."""
        return call in self.frames

    def may_run(self, call: AuditedCall) -> str:
        """Return why a call may not start now because of what is around it; "" where it may."""
        frame = self.frame(call.frame)
        if frame.guarded or frame.tripped:
            return "before its agent's guardrails let it"
        waits = call.proposal.last and frame.barrier
        early = waits and not all(other.proposal.last for other in self._unsettled(frame))
        return "before its siblings had their results" if early else ""

    def settled(self, call: AuditedCall) -> None:
        """Record that a call has its result."""
        frame = self.frame(call.frame)
        frame.open -= 1
        if not frame.barrier:  # its model reads each result as it comes
            del self.calls[call.id]
            del frame.calls[call.id]
            return
        self.forget(frame)

    def forget(self, frame: AuditedFrame) -> None:
        """Drop a reply of which every call has its result."""
        if frame.open or not frame.barrier:
            return
        for name in frame.calls:
            del self.calls[name]
        frame.calls = {}
        frame.phase = "judge" if frame.judged else "model"

    def _unsettled(self, frame: AuditedFrame) -> list[AuditedCall]:
        return [call for name in frame.calls if (call := self.calls[name]).place != "settled"]
