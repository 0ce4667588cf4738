"""Whoever reads a journal and believes nothing: were the promises kept? It knows events, not the code that folds them.

Each rule is one assertion with its law's words. What a call may do is a licence: an allow-verdict, a grant or a
decision for exactly the bytes that would run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from keyturn.core import events as ev
from keyturn.core.digest import canonical, digest
from keyturn.core.items import Item
from keyturn.core.strict import parse
from keyturn.core.usage import COUNTS, padded

_WORDS = re.compile("(?<!^)(?=[A-Z])")
NEVER = ("reject", "expire", "answer", "ran", "did_not_run")


@dataclass
class Audited:
    """A call: who made it, what it would run with, and what allows it to. It is open, running, in doubt, asking (its
    tool needs an answer), dead (it will not run) or settled (it has its result)."""

    id: str
    frame: str
    agent: str
    raw: Item
    proposal: ev.Proposal
    args: str = ""
    licence: str | None = None
    must_decide: bool = False
    place: str = "open"
    item: Item | None = None
    basis: dict[str, str] = field(default_factory=dict[str, str])
    question: list[Any] = field(default_factory=list[Any])
    asked: int = 0
    again: int = 0

    def digest(self, run: str) -> str:
        seen = [canonical(more) for more in (self.basis, self.again, self.question) if more]
        return digest(run, self.id, self.agent, self.proposal.tool, canonical(parse(self.args or "{}")), *seen)

    def propose(self, proposal: ev.Proposal) -> None:
        self.proposal, self.licence, self.item = proposal, None, proposal.refused
        self.args = self.raw.get("arguments", "") if proposal.args is None else proposal.args
        self.place, self.basis, self.question = "open" if self.item is None else "settled", {}, []


@dataclass
class Desk:
    """A frame: its conversation, and the calls of its last reply."""

    agent: str
    items: list[Any]
    guarded: str
    calls: list[str] = field(default_factory=list[str])
    queued: list[Item] = field(default_factory=list[Item])
    turn: int = 0
    tripped: bool = False


class Auditor:
    """Reads a journal step by step."""

    def __init__(self) -> None:
        self.run, self.now, self.over = "", 0, False
        self.desks: dict[str, Desk] = {}
        self.calls: dict[str, Audited] = {}
        self.grants: dict[str, ev.GrantTerms] = {}
        self.given: set[str] = set()
        self.uses: dict[str, int] = {}
        self.used: set[object] = set()
        self.usage = [0] * COUNTS

    def read(self, steps: Iterable[ev.Step]) -> Auditor:
        for step in steps:
            self.now = max(self.now, step.at)
            for event in step.events:
                if self.over:
                    allowed = ev.CallFinished | ev.CallLost | ev.SessionWritten | ev.ContextSaved | ev.GrantRevoked
                    assert isinstance(event, allowed), f"a run that is over goes on: {type(event).__name__}"
                getattr(self, _WORDS.sub("_", type(event).__name__).lower(), self.other)(event)
        return self

    def other(self, _event: ev.AnyEvent) -> None:
        """What no law is about."""

    def open(self, frame: str) -> list[Audited]:
        return [self.calls[name] for name in self.desks[frame].calls if self.calls[name].place != "settled"]

    # The run and its frames ----------------------------------------------------------------------------------------

    def run_started(self, event: ev.RunStarted) -> None:
        assert not self.run, "a run starts once"
        self.run = event.run

    def run_cancelled(self, event: ev.RunCancelled) -> None:
        self.over = True

    def frame_opened(self, event: ev.FrameOpened) -> None:
        assert event.frame not in self.desks, "a call is answered by one agent"
        assert event.frame == ev.ROOT or self.calls[event.frame].place == "running", (
            "an agent answers a call that has started"
        )
        self.desks[event.frame] = Desk(event.agent, list(event.items), event.guarded)

    def frame_closed(self, event: ev.FrameClosed) -> None:
        assert event.error or not self.open(event.frame), "no answer while calls are open"
        below = event.frame + "/"
        self.desks = {name: desk for name, desk in self.desks.items() if not name.startswith(below)}
        self.calls = {name: call for name, call in self.calls.items() if not name.startswith(below)}
        if event.frame == ev.ROOT:
            self.over = True
        else:
            del self.desks[event.frame]

    def guardrail_reported(self, event: ev.GuardrailReported) -> None:
        desk = self.desks.get(event.on)
        if desk is not None:
            assert not desk.tripped, "a tripwire is not taken back"
            desk.guarded, desk.tripped = "", any(report.tripped for report in event.reports)

    def input_added(self, event: ev.InputAdded) -> None:
        desk = self.desks[event.frame]
        (desk.queued if self.open(event.frame) else desk.items).extend(event.items)

    def handed_off(self, event: ev.HandedOff) -> None:
        desk = self.desks[event.frame]
        assert not self.open(event.frame), "no handoff while calls are open"
        desk.agent = event.agent
        if event.view is not None:
            parts = [desk.items[part[0] : part[1]] if isinstance(part, list) else [part] for part in event.view]
            desk.items = [item for part in parts for item in part]

    def reply_recorded(self, event: ev.ReplyRecorded) -> None:
        desk = self.desks[event.frame]
        assert not self.open(event.frame), "the model is never asked while calls of its frame are open"
        assert desk.guarded != "before", "the guardrails come first"
        desk.turn += 1
        self.usage = [sum(pair) for pair in zip(self.usage, padded(event.usage), strict=True)]
        desk.items.extend(event.output)
        desk.calls = [f"{event.frame}/{desk.turn}.{place}" for place in range(len(event.proposals))]
        for name, proposal in zip(desk.calls, event.proposals, strict=True):
            assert name not in self.calls, "a call has a name of its own"
            call = self.calls[name] = Audited(name, event.frame, desk.agent, event.output[proposal.item], proposal)
            call.propose(proposal)
            call.licence = call.args if proposal.gate == "allow" else None
        self.settled(desk, event.frame)

    def reply_refused(self, event: ev.ReplyRefused) -> None:
        self.usage = [sum(pair) for pair in zip(self.usage, padded(event.usage), strict=True)]

    # Calls ---------------------------------------------------------------------------------------------------------

    def call_screened(self, event: ev.CallScreened) -> None:
        call = self.calls[event.call]
        assert call.place == "open", "a verdict is on what has not run"
        assert event.preview is None or event.action == "ask", "only who is asked is shown what would change"
        if call.licence is None and event.preview is not None:
            call.basis = event.preview.basis
        if event.action == "deny":
            call.licence, call.place = None, "dead"
        elif event.action == "allow" and call.licence is None:
            assert not call.must_decide, "what was voided asks again"
            call.licence = call.args

    def call_decided(self, event: ev.CallDecided) -> None:
        made = event.decision
        call, stamp = self.calls[made.call], (made.call, made.verdict, made.digest, made.at, made.by)
        assert made.digest == call.digest(self.run), "a decision is for exactly the bytes that were shown"
        assert stamp not in self.used, "a decision is used once"
        assert call.place in ("open", "doubt", "asking"), "what was decided is decided"
        assert call.licence is None, "what may run already is not decided"
        self.used.add(stamp)
        if made.args is not None:
            assert made.verdict == "edit" or made.args == call.args, "only an edit changes what runs"
            call.args = made.args
        if call.place == "asking":
            assert made.verdict in ("answer", "reject"), "a question is answered or refused"
            assert made.by is None or not made.by.startswith("grant:"), "no standing decision answers a question"
            call.place = "open"
        else:
            call.place = "dead" if made.verdict in NEVER else "open"
        call.must_decide = False
        call.licence = call.args if call.place == "open" else None

    def call_voided(self, event: ev.CallVoided) -> None:
        call = self.calls[event.call]
        assert call.place == "open", "only what waits or is ready is voided"
        call.propose(event.proposal)
        call.must_decide, call.again = True, call.again + 1
        self.settled(self.desks[call.frame], call.frame)

    def call_started(self, event: ev.CallStarted) -> None:
        call, desk = self.calls[event.call], self.desks[self.calls[event.call].frame]
        assert call.place == "open", "a call is started once, and never after a rejection, a denial or an expiry"
        assert call.licence is not None, "no start without a verdict, a grant or a decision"
        assert call.licence == call.args, "a licence is for exactly the bytes that run"
        assert not desk.guarded, "no tool before the guardrails have reported"
        assert not desk.tripped, "no tool after a tripwire"
        assert all(other.proposal.last for other in self.open(call.frame)) or not call.proposal.last, (
            "the last run last"
        )
        call.place = "running"

    def call_needs(self, event: ev.CallNeeds) -> None:
        call = self.calls[event.call]
        assert call.place == "running", "only what was started asks for more"
        assert event.call not in self.desks, "what an agent answers asks nothing itself"
        call.question, call.asked = [event.requests, event.state, call.asked + 1], call.asked + 1
        call.place, call.licence = "asking", None

    def call_lost(self, event: ev.CallLost) -> None:
        call = self.calls[event.call]
        assert call.place == "running", "only what was started is lost"
        assert event.call not in self.desks, "what an agent answers is not lost"
        assert not event.again or call.proposal.recover == "retry", "what has effects is not started again by itself"
        call.place, call.again = "open" if event.again else "doubt", call.again + (not event.again)
        call.licence = call.args if event.again else None

    def call_finished(self, event: ev.CallFinished) -> None:
        call = self.calls[event.call]
        assert event.call not in self.desks, "what an agent answers has that agent's result"
        refused = call.place == "open" and event.failed and call.licence is not None
        assert call.place in ("running", "dead") or refused, "a call has one result, and it comes of something"
        call.item, call.place = event.item, "settled"
        self.settled(self.desks[call.frame], call.frame)

    def settled(self, desk: Desk, frame: str) -> None:
        if desk.calls and not self.open(frame):
            desk.items.extend(self.calls.pop(name).item for name in desk.calls)
            desk.items.extend(desk.queued)
            desk.calls, desk.queued = [], []

    # Grants --------------------------------------------------------------------------------------------------------

    def grant_given(self, event: ev.GrantGiven) -> None:
        assert event.grant.id not in self.given, "a grant is given once"
        self.given.add(event.grant.id)
        self.grants[event.grant.id], self.uses[event.grant.id] = event.grant, 0

    def grant_revoked(self, event: ev.GrantRevoked) -> None:
        del self.grants[event.grant]

    def grant_used(self, event: ev.GrantUsed) -> None:
        assert event.grant in self.grants, "a grant that was revoked covers nothing"
        grant, call = self.grants[event.grant], self.calls[event.call]
        assert call.place != "asking", "a grant answers no question"
        self.uses[grant.id] += 1
        assert grant.uses is None or self.uses[grant.id] <= grant.uses, "a grant is used as often as it says"
        assert grant.expires_at is None or self.now < grant.expires_at, "a grant ends at its time"
        assert (grant.agent, grant.tool) == (call.agent, call.proposal.tool), "a grant covers nothing else"
