"""Follow the calls of a log as it tells them, without judging: who is asked about what is read from here.

The automaton of the checker stops at the first line that breaks a law. This goes on, since a search must show what an
altered or unlawful log says as well. Of a call that has its result, and that nobody is asked to review, it keeps the
names alone, unless it `keeps` them: a log may be long.
"""

from __future__ import annotations

from typing import Any, cast

from ...core import events as ev
from ...core.call_ids import call_id
from ...core.digest import canonical
from ...core.items import Item
from ...core.preview import redact
from ..calls import AuditedCall, AuditedStep, Broken, request_name, value_of


class CallBook:
    """Knows the calls of one run; `read` takes each event before anything is asked about it.

    >>> book = CallBook("run")
    >>> book.read(ev.RunStarted("run", "salt", "hi", requester="ada"))
    >>> book.requester, book.calls
    ('ada', {})
    """

    def __init__(self, run: str, *, keeps: bool = False) -> None:
        self.run = run
        self._keeps = keeps
        self.salt = ""
        self.requester: str | None = None
        self.now = 0
        self.copied = False
        self.calls: dict[str, AuditedCall] = {}
        self.settled: dict[str, tuple[str, str]] = {}
        self.tools: dict[str, str] = {}
        self.grants: dict[str, ev.GrantTerms] = {}
        self._reviewed: set[str] = set()
        self._agents: dict[str, str] = {}
        self._turns: dict[str, int] = {}

    def read(self, event: ev.AnyEvent) -> None:
        """Take what an event says of calls: who makes them, what they are, what they wait for."""
        if isinstance(event, ev.RunStarted):
            self.salt = event.salt
            self.requester = event.requester
            self.copied = bool(event.copied_from)
        elif isinstance(event, ev.RunForked):  # of a fork of a fork, the last one names it
            self.copied = self.copied and event.run != self.run
        elif isinstance(event, ev.FrameOpened | ev.HandedOff):
            self._agents[event.frame] = event.agent
            if isinstance(event, ev.FrameOpened):
                self._turns[event.frame] = 0
        elif isinstance(event, ev.ReplyRecorded):
            self._replied(event)
        elif isinstance(event, ev.GrantGiven | ev.GrantBorrowed):
            self.grants[event.grant.id] = event.grant
        elif isinstance(event, ev.CallDecided | ev.VoteCast | ev.DrillEnded):
            self._decided(event)
        elif isinstance(event, ev.VoteWithdrawn):
            self._withdrawn(event.decision)
        elif isinstance(event, ev.ReviewAsked):
            self._reviewed.add(event.call)
        elif isinstance(event, ev.CallFinished):
            self._settle(event.call)
        elif isinstance(event, _OF_A_CALL):
            call = self.calls.get(event.call)
            if call is not None:
                _told(call, event)
                self.tools.setdefault(call.proposal.tool, call.proposal.name)

    def about(self, name: str) -> dict[str, Any]:
        """Return what an entry says of its call: tool and agent, and the arguments until it has its result."""
        if name in self.settled:
            agent, tool = self.settled[name]
            return {"tool": tool, "agent": agent, "call": name, "request": request_name(self.salt, name)}
        call = self.calls.get(name)
        if call is None:
            return {}
        made = {"tool": call.proposal.name, "agent": call.agent, "call": call.id}
        return made | {
            "request": request_name(self.salt, call.id),
            "arguments": in_order(self.arguments(call), like=self.as_made(call)),
        }

    def as_made(self, call: AuditedCall) -> Any:
        """Return the arguments of a call as the model wrote them, for their order; None where they cannot be read."""
        text = call.raw.get("arguments")
        try:
            return value_of(text) if isinstance(text, str) else None
        except Broken:
            return None

    def _settle(self, name: str) -> None:
        if name in self.calls and name not in self._reviewed and not self._keeps:
            call = self.calls.pop(name)
            self.settled[name] = call.agent, self.tools.get(call.proposal.tool, call.proposal.name)

    def _replied(self, event: ev.ReplyRecorded) -> None:
        turn = self._turns[event.frame] = self._turns.get(event.frame, 0) + 1
        for place, proposal in enumerate(event.proposals):
            name = call_id(event.frame, turn, place)
            raw = event.output[proposal.item] if 0 <= proposal.item < len(event.output) else cast("Item", {})
            call = AuditedCall(name, event.frame, self._agents.get(event.frame, ""), raw, proposal)
            call.args = _text(call)
            self.calls[name] = call
            self.tools.setdefault(proposal.tool, proposal.name)

    def _decided(self, event: ev.CallDecided | ev.VoteCast | ev.DrillEnded) -> None:
        made = event.decision
        call = self.calls.get(made.call)
        if call is None:
            return
        if not isinstance(event, ev.DrillEnded):
            call.votes = {by: vote for by, vote in call.votes.items() if by not in event.lapsed}
        if isinstance(event, ev.VoteCast):
            if made.confirms:  # what it is asked on next says whether a step of a chain was met by it
                call.confirmed = made
            elif not event.replaced:
                call.votes[made.by or ""] = made
            return
        call.decision = made
        call.args = call.args if made.args is None else made.args

    def _withdrawn(self, made: ev.Decision) -> None:
        call = self.calls.get(made.call)
        if call is not None:
            call.votes = {by: vote for by, vote in call.votes.items() if by != made.by}
            call.confirmed = None if call.confirmed is None or call.confirmed.by == made.by else call.confirmed

    def arguments(self, call: AuditedCall, text: str | None = None) -> Any:
        """Return what a call would run with, or an edit of it, secrets redacted."""
        try:
            value: Any = value_of(call.args if text is None else text)
        except Broken:
            return None
        return redact(value, call.proposal.secrets)


def in_order(arguments: object, like: object = None) -> str:
    """Return arguments as JSON in the order of the call, and not by name; those of an edit stand as they did before it.

    >>> in_order({"to": "ada", "amount": 5}), in_order({"amount": 4, "to": "ada"}, like={"to": "ada", "amount": 5})
    ('{"to":"ada","amount":5}', '{"to":"ada","amount":4}')
    """
    if not isinstance(arguments, dict):
        return canonical(arguments)
    given = cast("dict[str, Any]", arguments)
    first = cast("dict[str, Any]", like) if isinstance(like, dict) else {}
    names = [name for name in dict.fromkeys([*first, *given]) if name in given]
    return f"{{{','.join(f'{canonical(name)}:{canonical(given[name])}' for name in names)}}}"


_OF_A_CALL = (ev.CallScreened, ev.CallAskedAgain, ev.CallVoided, ev.CallNeeds, ev.CallLost)


def _text(call: AuditedCall) -> str:
    args: Any = call.raw.get("arguments", "") if call.proposal.args is None else call.proposal.args
    return args if isinstance(args, str) else ""


def _told(call: AuditedCall, event: Any) -> None:
    if isinstance(event, ev.CallScreened):
        _screened(call, event)
    elif isinstance(event, ev.CallAskedAgain):
        call.asks += 1
        if event.why == "step" and not call.met and call.terms is not None:
            call.met = [AuditedStep(call.terms, {}, {})]  # the terms of the first step, from which it begins anew
        elif event.why in ("restored", "forked", "terms"):
            call.from_first_step()
        call.unmark()
        call.terms = call.terms if event.terms is None else event.terms
        call.renewed = event.nonce or call.renewed
        call.asked_at = event.at
        call.votes = {}
    elif isinstance(event, ev.CallVoided):
        call.proposal = event.proposal
        call.args = _text(call)
        call.preview = call.question = call.decision = None
        call.from_first_step()
        call.unmark()
        call.votes = {}
        call.asks += 1
        call.renewed = event.nonce or call.renewed
    elif isinstance(event, ev.CallNeeds) and event.wants == "approval":
        call.ask_before_acting(event)
        call.asked_at = event.at
        call.decision = None
    elif isinstance(event, ev.CallNeeds):
        call.rounds += 1
        call.question = event
        call.asked_at = event.at
        call.votes = {}
    elif not event.again:
        call.preview = event.preview or call.preview
        call.asks += 1
        call.renewed = event.nonce or call.renewed
        call.from_first_step()
        call.unmark()
        call.votes = {}


def _screened(call: AuditedCall, event: ev.CallScreened) -> None:
    if call.decision is not None:
        return  # the newest policy looked at what was decided
    call.terms = event.terms
    call.reason = event.reason
    call.preview = event.preview
    call.asked_at = event.at
