"""Commands to begin with, and a pen that writes a log as the engine does: one commit, one step, one line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.codec import Log
from keyturn.core.decide import step
from keyturn.core.effects import pending
from keyturn.core.errors import KeyturnError
from keyturn.core.items import Item
from keyturn.core.people import Decider
from keyturn.core.policy import Verdict
from keyturn.core.run import Call, Frame, Run, call_digest
from keyturn.core.usage import Counts

ASK = Verdict("ask")
ALLOW = Verdict("allow")
DENY = Verdict("deny", reason="not here")
PEOPLE = Approval(quorum=2, deny_quorum=2)
USED = Counts(1, 5, 2)


class Pen:
    """A run and its log, moved by commands; `now` is the only clock."""

    def __init__(self, log: Log | None = None) -> None:
        self.log = Log() if log is None else log
        self.now = self.log.run.now

    @property
    def run(self) -> Run:
        return self.log.run

    def __call__(self, *commands: cm.RunCommand, at: int | None = None) -> list[ev.AnyEvent]:
        """Decide commands at a time, as one step."""
        self.now = self.now if at is None else at
        events = [event for command in commands for event in step(self.run, command, self.now)]
        if events:
            self.log.append(ev.Step(self.now, events))
        return events

    def call(self, call_id: str = "r/1.0") -> Call:
        return self.run.calls[call_id]

    def state(self, call_id: str = "r/1.0") -> str:
        return self.call(call_id).state

    def root(self) -> Frame:
        return self.run.frames["r"]

    def does(self) -> list[str]:
        """What is pending, in words."""
        return [f"{effect.do} {effect.on}" for effect in pending(self.run)]

    def decide(self, verdict: str, call_id: str = "r/1.0", **more: Any) -> list[ev.AnyEvent]:
        """Deliver one decision of what is shown now."""
        return self(cm.Deliver([self.decision(verdict, call_id, **more)]))

    def decision(self, verdict: Any, call_id: str = "r/1.0", *, by: str | Decider | None = None, **more: Any) -> Any:
        """A decision of what is shown now; a name alone is a person who logged in."""
        settings: dict[str, Any] = {"digest": call_digest(self.run, self.call(call_id)), "at": self.now} | more
        return ev.Decision(call_id, verdict, decider=person(by) if isinstance(by, str) else by, **settings)

    def screened(self, call_id: str = "r/1.0", verdict: Verdict = ALLOW) -> list[cm.RunCommand]:
        """The newest policy's word on a decision, where one is due."""
        return [cm.Screen(call_id, verdict, on_decision=True)] if self.call(call_id).recheck else []

    def begin(self, call_id: str = "r/1.0") -> list[ev.AnyEvent]:
        """Start a call that is ready; the newest policy has nothing against it."""
        return self(*self.screened(call_id), cm.StartCall(call_id, self.call(call_id).proposal.tool))

    def end(self, call_id: str = "r/1.0", output: str = "done", **more: Any) -> list[ev.AnyEvent]:
        """Give a call its result."""
        return self(cm.FinishCall(call_id, result(self.call(call_id).proposal.label, output), **more))

    def refuses(self, error: type[KeyturnError], *commands: cm.RunCommand, at: int | None = None) -> Any:
        """Decide commands that are refused with exactly this error and leave the run as it was; the error."""
        before = everything(self.run)
        with pytest.raises(error) as caught:
            self(*commands, at=at)
        assert type(caught.value) is error
        assert everything(self.run) == before
        return caught.value

    def copy(self) -> Pen:
        """The same run, read back from its lines."""
        other = Pen(Log.read(list(self.log.lines())))
        other.now = self.now
        return other


def everything(run: Run) -> bytes:
    """All that is true of a run, the order of what is open included."""
    return msgspec.json.Encoder(enc_hook=str).encode(run)


def person(name: str, *roles: str, strength: Any = "authenticated", requester: bool = False) -> Decider:
    """Somebody who logged in."""
    return Decider(name, roles, strength, requester)


def user(text: str) -> Item:
    return {"role": "user", "content": text}


def says(text: str) -> Item:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def result(label: str, output: str = "done") -> Item:
    return {"type": "function_call_output", "call_id": label, "output": output}


def start(**more: Any) -> cm.Start:
    settings: dict[str, Any] = {"items": [user("hi")], "max_turns": 10, "agent": "a"} | more
    return cm.Start("run", "salt", "hi", {}, **settings)


def tool(label: str, gate: str = "allow", arguments: str = '{"n":1}', **more: Any) -> tuple[Item, ev.Proposal]:
    """A call as the model wrote it and as it is proposed; `item` is set when it is put in a reply."""
    settings: dict[str, Any] = {"tool": "t1", "gate": gate} | more
    name = "t" if settings["tool"] == "t1" else settings["tool"]
    raw = {"type": "function_call", "call_id": label, "name": name, "arguments": arguments}
    return raw, ev.Proposal("function", name, label, 0, **settings)


def reply(*calls: tuple[Item, ev.Proposal], frame: str = "r", **more: Any) -> cm.RecordReply:
    """A model's reply that makes these calls, or says "ok" if there are none."""
    if not calls:
        return cm.RecordReply(frame, [says("ok")], [], USED, **more)
    made = [replace(proposal, item=place) for place, (_raw, proposal) in enumerate(calls)]
    return cm.RecordReply(frame, [raw for raw, _proposal in calls], made, USED, **more)


def asked(*calls: tuple[Item, ev.Proposal], **settings: Any) -> Pen:
    """A run that has just made these calls; one that asks by default."""
    pen = Pen()
    pen(start(**settings))
    pen(reply(*(calls or (tool("c0", "ask"),))))
    return pen


def nested(*calls: tuple[Item, ev.Proposal], **settings: Any) -> Pen:
    """A run whose call r/1.0 is answered by a nested agent that has just made these calls."""
    pen = asked(tool("outer"))
    pen.begin()
    pen(cm.OpenFrame("r/1.0", "a/b", [user("inner")], 5, **settings))
    if calls:
        pen(reply(*calls, frame="r/1.0"))
    return pen


def grant(name: str = "g", *, by: str | Decider | None = "ada", **more: Any) -> ev.GrantTerms:
    """A standing decision, by somebody who logged in."""
    terms: dict[str, Any] = {"agent": "a", "tool": "t1"} | more
    return ev.GrantTerms(name, decider=person(by) if isinstance(by, str) else by, **terms)
