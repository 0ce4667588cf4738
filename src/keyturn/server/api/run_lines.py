"""Show the lines of a run's log to people: what happened, with secrets redacted as they are in rows.

What is shown of each event is listed here, and nothing else of it leaves: a line may hold what a tool marked as secret,
and what an agent was asked may quote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from ...core import events as ev
from ...core.call_ids import call_id
from ...core.drill_words import word_of
from ...core.encodable import moment
from ...core.items import texts_of
from ...core.preview import redact
from ...core.request import shown_params
from ...core.run import Call, Run, request_id
from ...core.shown_items import SECRETS, shown_input
from ...core.strict import parse
from ...render.verdicts import verdict_of
from ...wire.responses import RunLine

Shown = dict[str, Any]


def shown_line(line: int, run: Run, step: ev.Step, words: Sequence[list[str]] | None = None) -> RunLine:
    """Show one line; `run` is the run after it, and `words` are rows for people of each event."""
    events = [_shown(run, event) for event in step.events]
    if words is not None:
        events = [event | {"words": told} for event, told in zip(events, words, strict=True)]
    return RunLine(line, moment(max(step.at, 0)), events)


def _shown(run: Run, event: ev.AnyEvent) -> Shown:
    told: Shown = {"event": type(event).__name__}
    for name in ("frame", "call", "grant"):
        value: object = getattr(event, name, None)
        if isinstance(value, str):
            told[name] = value
    more = _MORE.get(type(event))
    if more is not None:
        told |= {name: value for name, value in more(run, event) if value not in (None, "")}
    if "call" in told:
        told["request"] = request_id(run, told["call"])
    return cast("Shown", msgspec.to_builtins(told))


Pairs = Iterator[tuple[str, Any]]


def _started(run: Run, e: ev.RunStarted) -> Pairs:
    yield "requester", e.requester
    yield "input", shown_input(e.input, run.about.get(SECRETS, {}))


def _added(run: Run, e: ev.InputAdded) -> Pairs:
    yield "items", shown_input(e.items, run.about.get(SECRETS, {}))


def _replied(run: Run, e: ev.ReplyRecorded) -> Pairs:
    yield "model", e.model
    yield "text", _text_of(e.output)
    turn = run.frames[e.frame].turn if e.frame in run.frames else 0
    yield "calls", [_proposed(run, call_id(e.frame, turn, at), made) for at, made in enumerate(e.proposals)]


def _text_of(output: list[Any]) -> str:
    """Return what the model said to people; its calls, whose arguments may be secret, are told beside it."""
    return "\n".join(text for item in output if item.get("type", "message") == "message" for text in texts_of(item))


def _proposed(run: Run, name: str, made: ev.Proposal) -> Shown:
    call = run.calls.get(name)
    told: Shown = {"call": name, "request": request_id(run, name), "tool": made.name, "kind": made.kind}
    if call is not None:
        told["params"] = shown_params(call)
    return told | ({"risk": made.risk} if made.risk else {})


def _screened(_run: Run, e: ev.CallScreened) -> Pairs:
    yield "action", e.action
    yield "reason", e.reason
    yield "by", e.by


def _decision(run: Run, e: ev.CallDecided | ev.VoteCast | ev.VoteWithdrawn) -> Pairs:
    said = e.decision
    call: Call | None = run.calls.get(said.call)
    yield "call", said.call
    yield "verdict", verdict_of(said)
    yield "by", said.by
    yield "via", said.via
    yield "note", said.note
    yield "message", said.message
    yield "signed", (said.proof is not None) or None
    yield "broke_glass", said.broke_glass or None
    if said.args is not None:
        yield "params", None if call is None else redact(parse(said.args), call.proposal.secrets)
        yield "params_before", None if call is None else redact(_proposed_params(call), call.proposal.secrets)
    if said.verdict in ("answer", "ran"):
        yield "output", said.output


def _proposed_params(call: Call) -> Any:
    args: str = call.raw.get("arguments", "") if call.proposal.args is None else call.proposal.args
    return parse(args or "{}")


def _drilled(_run: Run, e: ev.DrillEnded) -> Pairs:
    yield "call", e.decision.call
    yield "verdict", word_of(e)
    yield "by", e.decision.by


def _finished(_run: Run, e: ev.CallFinished) -> Pairs:
    yield "failed", e.failed or None
    yield "output", e.item.get("output")


def _granted(_run: Run, e: ev.GrantGiven) -> Pairs:
    yield "grant", e.grant.id
    yield "verdict", e.grant.verdict
    yield "by", e.grant.by


def _marked(_run: Run, e: ev.CallMarked) -> Pairs:
    yield "mark", e.mark
    yield "by", e.decider.id
    yield "until", None if e.until is None else moment(e.until)


def _cancelled(_run: Run, e: ev.RunCancelled) -> Pairs:
    yield "by", None if e.decider is None else e.decider.id
    yield "why", e.why


def _named(*names: str) -> Callable[[Run, Any], Pairs]:
    def pairs(_run: Run, e: object) -> Pairs:
        return iter([(name, getattr(e, name)) for name in names])

    return pairs


_MORE: dict[type[Any], Callable[[Run, Any], Pairs]] = {
    ev.RunStarted: _started,
    ev.FrameOpened: _named("agent"),
    ev.HandedOff: _named("agent"),
    ev.InputAdded: _added,
    ev.ReplyRecorded: _replied,
    ev.CallScreened: _screened,
    ev.CallDecided: _decision,
    ev.VoteCast: _decision,
    ev.VoteWithdrawn: _decision,
    ev.DrillEnded: _drilled,
    ev.CallAskedAgain: _named("why", "reason"),
    ev.CallVoided: _named("why"),
    ev.CallStarted: _named("by"),
    ev.CallFinished: _finished,
    ev.CallLost: _named("why", "again"),
    ev.CallMarked: _marked,
    ev.GrantGiven: _granted,
    ev.FrameClosed: _named("output", "error"),
    ev.RunFailed: _named("error"),
    ev.RunCancelled: _cancelled,
    ev.RunRestored: _named("why"),
    ev.RunForked: _named("origin", "at"),
}
