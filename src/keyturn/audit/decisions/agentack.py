"""Write a run as a trace of the public checker `agentack`, so that somebody else's rules judge our logs.

An action there is one thing that may run once, on one approval. So a call is a new action of the same intent whenever
what was said before counts no more: it was edited, proposed anew, asked about again, lost, or asks for an answer. An
edit denies the original and approves the new action. What policies, grants and tools let run has a request and a
decision as well. That checker knows no people: a decision that its terms do not accept (the wrong person, too few,
other bytes) is written as the denial that it amounts to, and one that came too late as an approval that had expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, cast

from ...core import events as ev
from ...core.call_ids import is_below
from ...core.digest import canonical
from ..calls import AuditedCall, Broken, request_name
from ..deciders import agree, behind_glass, lasts, objection, of_step, quorum, takes_people, two_steps
from ..laws.grants import GRANT
from ..voices import heard
from .calls import CallBook

#: The policy with which a trace is to be checked: everything that runs takes an approval of its own.
POLICY = """version = 1
[approval]
require_for = ["*:*"]
single_use = true
exact_action_binding = true
"""
_NEVER = "9999-12-31T23:59:59Z"
_DEEPEST = 16
_LARGEST = 200_000


@dataclass
class _Action:
    """Tracks one action: its number among those of its call, and how far it came."""

    number: int
    parameters: dict[str, Any]
    wait: str = "asked"  # asked, doubt or asking: what a decision of it would answer
    requested: bool = False
    decided: bool = False
    over: bool = False


class AgentackTrace:
    """Makes the trace of one run from its steps.

    `shown` holds what people were shown of a request, by its id, and `executed` what tools were really called with, by
    idempotency key: with both, the checker compares three sources, and with neither what the log says of all three.

    >>> trace = AgentackTrace("run")
    >>> trace.read(ev.Step(5, [ev.RunStarted("run", "salt", "hi"), ev.FrameClosed("r", "done")]))
    >>> [event["type"] for event in trace.events()]
    ['session_end']
    """

    def __init__(
        self, run: str, shown: Mapping[str, Any] | None = None, executed: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        self._book = CallBook(run, keeps=True)
        self._run = self._bound_to = run  # another in the lines that a fork copied
        self._shown = dict(shown or {})
        self._executed = {key: list(values) for key, values in (executed or {}).items()}
        self._actions: dict[str, _Action] = {}
        self._found: list[dict[str, Any]] = []
        self._now = 0
        self._ended = False

    def read(self, step: ev.Step) -> None:
        """Read one step."""
        self._now = max(self._now, step.at)
        for event in step.events:
            if isinstance(event, ev.CallDecided):
                self._decided(event.decision)
            self._book.read(event)
            self._take(event)

    def events(self) -> list[dict[str, Any]]:
        """Return the events of the trace; it ends as a session only where the run is over."""
        last = [self._event("session_end", reason="the run is over")] if self._ended else []
        return [*self._found, *last]

    def _take(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.RunStarted):
            self._bound_to = event.copied_from or self._run
        elif isinstance(event, ev.RunForked):
            self._bound_to = event.run
        elif isinstance(event, ev.ReplyRecorded):
            for call in [call for name, call in self._book.calls.items() if name not in self._actions]:
                self._proposed(call)
        elif isinstance(event, ev.FrameClosed | ev.RunCancelled | ev.DrillEnded):
            self._closed(event)
        elif isinstance(event, _OF_A_CALL) and event.call in self._actions:
            call = self._book.calls[event.call]
            if isinstance(event, ev.CallScreened):
                self._screened(call, event)
            elif isinstance(event, ev.CallStarted):
                self._started(call)
            elif isinstance(event, ev.CallFinished):
                self._settle(call, "it did not run")
            else:
                self._again(call, event)

    # Actions -------------------------------------------------------------------------------------------------------

    def _proposed(self, call: AuditedCall) -> None:
        self._new(call)
        if call.proposal.refused is not None:
            self._settle(call, "it never came to the gate")
        elif call.proposal.gate == "allow":
            self._request(call)
            self._decide(call, "allow")

    def _new(self, call: AuditedCall, parameters: object = None) -> _Action:
        """Propose a new action of a call; the one before it is over."""
        before = self._actions.get(call.id)
        made = self._parameters(call) if parameters is None else _plain(parameters)
        action = _Action(1 if before is None else before.number + 1, made)
        self._actions[call.id] = action
        self._add("action_proposed", call, action=self._action(call, made))
        return action

    def _request(self, call: AuditedCall) -> None:
        """Write that somebody or something was asked about the newest action of a call."""
        action = self._actions[call.id]
        if action.requested:
            return
        action.requested = True
        shown = self._shown.get(request_name(self._book.salt, call.id)) if action.wait == "asked" else None
        first = action.number == 1 and not call.asks and not call.rounds
        seen = action.parameters if shown is None or not first else _plain(shown)
        self._add("approval_requested", call, approval=True, action=self._action(call, seen))

    def _decide(self, call: AuditedCall, word: str, expires: str = _NEVER) -> None:
        action = self._actions[call.id]
        if not action.decided:
            action.decided = True
            self._add("approval_decision", call, approval=True, decision=word, expires_at=expires)

    def _settle(self, call: AuditedCall, why: str) -> None:
        """End the newest action of a call, if it did not run."""
        action = self._actions[call.id]
        if action.over:
            return
        self._request(call)
        self._decide(call, "deny")
        action.over = True
        self._add("action_blocked", call, approval=True, reason=why)

    def _screened(self, call: AuditedCall, event: ev.CallScreened) -> None:
        action = self._actions[call.id]
        if event.action == "deny":
            self._settle(call, "a policy denied it")
        elif not action.requested:  # a policy that looks at what people decided says nothing of its own
            self._request(call)
            if event.action == "allow":
                self._decide(call, "allow" if self._may_allow(call, event.by) else "deny")

    def _may_allow(self, call: AuditedCall, by: str) -> bool:
        """Return whether a call may be allowed unasked: a tool that always asks takes a grant for that."""
        if by.startswith(GRANT):
            return self._granted(call, by.removeprefix(GRANT))
        return call.proposal.gate != "ask"

    def _started(self, call: AuditedCall) -> None:
        action = self._actions[call.id]
        seen = self._executed.get(request_name(self._book.salt, call.id))
        made = _plain(seen.pop(0)) if seen else action.parameters
        self._add("action_executed", call, approval=action.decided, action=self._action(call, made))
        action.over = True

    def _again(self, call: AuditedCall, event: object) -> None:
        """Begin a new action where what was said of the one before counts no more."""
        action = self._actions[call.id]
        fresh = not action.requested and not action.over
        if not fresh:
            self._settle(call, "what was said of it is void")
        if isinstance(event, ev.CallNeeds) and event.wants == "approval":  # it has done nothing yet
            self._new(call)
        elif isinstance(event, ev.CallNeeds):
            self._new(call, {"arguments": self._parameters(call), "asks": event.requests}).wait = "asking"
        elif not fresh:
            self._new(call)
        if isinstance(event, ev.CallLost):
            self._lost(call, event)
        elif isinstance(event, ev.CallVoided):
            if event.proposal.refused is not None:
                self._settle(call, "it never came to the gate")
        else:
            self._request(call)

    def _lost(self, call: AuditedCall, event: ev.CallLost) -> None:
        self._actions[call.id].wait = "doubt"
        if not event.again:
            self._request(call)
        elif call.proposal.recover == "retry":  # its tool says that it may be started again
            self._request(call)
            self._decide(call, "allow")

    def _closed(self, event: ev.FrameClosed | ev.RunCancelled | ev.DrillEnded) -> None:
        whole = not isinstance(event, ev.FrameClosed) or event.frame == ev.ROOT
        if isinstance(event, ev.RunCancelled):
            self._found.append(self._event("interrupt", reason="the run was cancelled"))
        for name, call in self._book.calls.items():
            if whole or (isinstance(event, ev.FrameClosed) and is_below(name, event.frame)):
                self._settle(call, "its agent's work ended")
        self._ended = self._ended or whole

    # Decisions -----------------------------------------------------------------------------------------------------

    def _decided(self, made: ev.Decision) -> None:
        call = self._book.calls.get(made.call)
        if call is None or call.id not in self._actions:
            return
        action = self._actions[call.id]
        lets = made.verdict in ("approve", "edit", "retry") or action.wait == "asking"
        if not lets:
            self._settle(call, f"the word was {made.verdict}")
            return
        word = "allow" if action.requested and self._stands(call, made, action.wait) else "deny"
        expires = self._expires(call, made, action.wait)
        if made.args is not None and action.wait == "asked":
            self._settle(call, "it was edited: see the action that follows")
            edited = self._book.arguments(call, made.args)
            self._new(call, {} if edited is None else edited)
            self._request(call)
        self._decide(call, word, expires)

    def _stands(self, call: AuditedCall, made: ev.Decision, wait: str) -> bool:
        """Return whether a call's terms accept a decision, and it is for the bytes that were asked about."""
        try:
            bound = made.digest == call.digest(self._bound_to)
            if made.args is not None:
                bound = bound and made.runs == call.edit_digest(self._bound_to, made.args, made.basis)
        except Broken:
            return False
        return bound and self._accepted(call, made, wait)

    def _accepted(self, call: AuditedCall, made: ev.Decision, wait: str) -> bool:
        if made.via == "grant":
            return self._granted(call, made.grant or "")
        if made.via == "probe":
            return call.proposal.recover == "probe"
        if made.via != "person":
            return made.via == "on_approval" and not takes_people(call.terms)
        terms = behind_glass(call.stated) if made.broke_glass else of_step(call.terms, confirmed=True)
        early = terms is None if made.broke_glass else _comes_early(call, wait)
        if early or objection(terms, made.decider, self._book.requester, made.proof):
            return False
        agreeing = {by: vote for by, vote in call.votes.items() if agree(vote, made)} | {made.by or "": made}
        voices = heard(vote.decider for vote in agreeing.values())
        return wait == "asking" or voices >= quorum(terms, made.verdict)

    def _granted(self, call: AuditedCall, name: str) -> bool:
        """Return whether a grant is there, is about the call's tool and approves it, and has not run out."""
        terms = self._book.grants.get(name)
        if terms is None or (terms.agent, terms.tool, terms.verdict) != (call.agent, call.proposal.tool, "approve"):
            return False
        return terms.expires_at is None or self._now <= terms.expires_at

    def _expires(self, call: AuditedCall, made: ev.Decision, wait: str) -> str:
        """Return until when an approval may be used: not at all where it came after its request had run out."""
        terms = call.terms
        if terms is None or wait != "asked":
            return _NEVER
        if terms.expires_ms is not None and self._now > call.asked_at + terms.expires_ms:
            return _moment(call.asked_at + terms.expires_ms)
        within = lasts(terms)
        return _NEVER if within is None else _moment(made.at + within)

    # Events --------------------------------------------------------------------------------------------------------

    def _parameters(self, call: AuditedCall) -> dict[str, Any]:
        return _plain(self._book.arguments(call))

    def _action(self, call: AuditedCall, parameters: dict[str, Any]) -> dict[str, Any]:
        made = call.proposal
        return {"tool": made.name.strip() or "?", "operation": made.kind.strip() or "?", "parameters": parameters}

    def _add(self, kind: str, call: AuditedCall, *, approval: bool = False, **more: Any) -> None:
        name = f"{call.id}#{self._actions[call.id].number}"
        named = {"action_id": name, "intent_id": call.id} | ({"approval_id": name} if approval else {})
        self._found.append(self._event(kind, **named, **more))

    def _event(self, kind: str, **more: Any) -> dict[str, Any]:
        return {
            "schema_version": 2,
            "type": kind,
            "timestamp": _moment(self._now),
            "session_id": self._run,
            **more,
        }


_OF_A_CALL = (
    *(ev.CallScreened, ev.CallStarted, ev.CallFinished),
    *(ev.CallLost, ev.CallNeeds, ev.CallVoided, ev.CallAskedAgain),
)


def trace_of(
    run: str,
    steps: Iterable[ev.Step],
    shown: Mapping[str, Any] | None = None,
    executed: Mapping[str, Sequence[Any]] | None = None,
) -> list[dict[str, Any]]:
    """Return the trace of a run.

    >>> trace_of("run", [])
    []
    """
    trace = AgentackTrace(run, shown, executed)
    for step in steps:
        trace.read(step)
    return trace.events()


def _comes_early(call: AuditedCall, wait: str) -> bool:
    """Return whether the requester's confirmation, or another step of a chain, comes before what lets a call run."""
    if call.terms is None or wait == "asking":
        return False
    return call.terms.then is not None or (wait == "asked" and two_steps(call.terms) and call.confirmed is None)


def _plain(value: object) -> dict[str, Any]:
    """Return parameters as the checker takes them: an object, neither deep nor large; else the digest of what it is."""
    made = cast("dict[str, Any]", value) if isinstance(value, dict) else {"value": value}
    text = canonical(made)
    if len(text) > _LARGEST or _depth(made) > _DEEPEST:
        return {"sha256": sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}
    return made


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, cast("dict[str, Any]", value).values()), default=0)
    return 1 + max(map(_depth, cast("list[Any]", value)), default=0) if isinstance(value, list) else 0


def _moment(at: int) -> str:
    """Return a time as the checker reads it."""
    try:
        return datetime.fromtimestamp(at / 1000, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return _NEVER
