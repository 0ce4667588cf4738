"""Read what an adapter submits, and show a request as AAP has it.

Each field is kept as it was received, number by number, and given back so: an adapter compares, and runs nothing that
differs. The arguments are the text that people are shown.
"""

from __future__ import annotations

import json
from typing import Annotated, Any
from uuid import UUID

import msgspec

from ...asks.ask import Ask, AskedBy
from ...asks.history import AskHistory, FirstOutcome
from ...asks.standing import NOTHING
from ...core.approval import Approval
from ...core.digest import canonical
from ...core.durations import milliseconds
from ...core.encodable import timestamp
from ...core.errors import RunMissing
from ...core.records import BY_GRANT
from ...core.strict import TextLimits, parse
from .errors import AapRefused

#: How long an approval may be consumed, where a policy states no shorter time.
EXECUTE_BY = "5m"
_KEEPS = "aap"
_SHOWN = ("framework", "host", "folder", "session")
_ANSWERED = frozenset({"id", "status", "created_at", "deadline_at", "decision", "consumption"})
_MOST_MS = milliseconds("30d")

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Timeout = Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]*(s|m|h)$", max_length=12)]


class Submission(msgspec.Struct, frozen=True):
    """Describes a call for which an adapter requests approval; fields beyond these are kept and given back."""

    tool: Name
    arguments: dict[str, Any]
    timeout: Timeout
    server: Name | None = None
    agent_reasoning: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    context: dict[str, Any] = {}


class ConsumedOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes what came of a consumed call."""

    status: Annotated[str, msgspec.Meta(pattern="^(succeeded|failed)$")]
    note: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)] | None = None


def read(kind: Any, raw: bytes, most: int) -> Any:
    """Read the body of a request as one of these, or refuse it."""
    try:
        return msgspec.convert(parse(raw, TextLimits(bytes=most)), kind)
    except msgspec.ValidationError as error:
        raise AapRefused(400, "invalid_request", f"the body is not valid: {error}") from None


def ask_of(submitted: Submission, raw: bytes, key: str) -> Ask:
    """Return what is asked in the words of external callers; its context keeps the fields as they were received."""
    fields = {
        name: bytes(text).decode() for name, text in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items()
    }
    if taken := sorted(fields.keys() & _ANSWERED):
        raise AapRefused(400, "invalid_request", f"the field {taken[0]!r} is the provider's", taken[0])
    nulls = sorted(name for name, text in fields.items() if text.strip() == "null")
    if nulls:
        raise AapRefused(400, "invalid_request", f"the field {nulls[0]!r} is null: leave it out", nulls[0])
    if milliseconds(submitted.timeout) > _MOST_MS:
        raise AapRefused(400, "invalid_request", "timeout is at most 720h", "timeout")
    shown = {name: text for name in _SHOWN if isinstance(text := submitted.context.get(name), str)}
    return Ask(
        key=key_of(key),
        tool=submitted.tool,
        arguments=fields.pop("arguments"),
        server=submitted.server or "",
        reasoning=submitted.agent_reasoning or "",
        context={**shown, _KEEPS: fields},
        terms=Approval(expires=submitted.timeout, execute_by=EXECUTE_BY),
        editable=False,
        ask_again=False,
    )


def key_of(key: str) -> str:
    """Return the key of an external call for the idempotency key of a request.

    >>> key_of("4dc6")
    'aap 4dc6'
    """
    return f"aap {key}"


def received(asked: AskedBy) -> dict[str, str]:
    """Return the fields of a request as they were received; `RunMissing` for one that came by another way."""
    try:
        kept = msgspec.convert(asked.ask.context.get(_KEEPS), dict[str, str])
        msgspec.json.decode(kept.get("timeout", ""), type=Timeout)
    except msgspec.DecodeError:
        raise RunMissing(asked.ask.key) from None
    return {**kept, "arguments": asked.ask.arguments}


def is_same(before: AskedBy, ask: Ask) -> bool:
    """Return whether a request asks what was asked before: the same fields, however they are spaced and ordered."""
    try:
        known = received(before)
    except RunMissing:
        return False
    given = {**ask.context[_KEEPS], "arguments": ask.arguments}
    return known.keys() == given.keys() and all(_value(known[name]) == _value(given[name]) for name in given)


def _value(text: str) -> str:
    return canonical(parse(text))


def id_of(run: str) -> str:
    """Return the id of a request as AAP has it.

    >>> id_of("4dc635f094234a9899cc33d2168fcbb2")
    '4dc635f0-9423-4a98-99cc-33d2168fcbb2'
    """
    return str(UUID(hex=run))


def deadline_of(history: AskHistory) -> int:
    """Return until when a request can be decided, in milliseconds since 1970."""
    return history.begun_at + milliseconds(json.loads(received(history.asked)["timeout"]))


def decided(history: AskHistory, now: int) -> dict[str, str] | None:
    """Return the decision on a request; None while it is pending.

    One on which nothing was recorded by its deadline expired then, whatever came later.
    """
    first, deadline = history.first, deadline_of(history)
    if now >= deadline and (first is None or first.recorded >= deadline):
        return {"status": "expired", "decided_at": timestamp(deadline)}
    if first is None or first.since > now:
        return None
    made = {"status": _STATUS[first.word], "decided_at": timestamp(max(first.at, history.begun_at))}
    if note := _note(first):
        made["note"] = note
    if first.word == "approved":
        made["expires_at"] = timestamp(expires_at(first))
    return made


def status_of(decision: dict[str, str] | None) -> str:
    """Return the status of a request with this decision."""
    return "pending" if decision is None else decision["status"]


def expires_at(first: FirstOutcome) -> int:
    """Return until when an approval may be consumed, in milliseconds since 1970."""
    limit = first.at + milliseconds(EXECUTE_BY)
    return limit if first.until is None else min(first.until, limit)


def shown(history: AskHistory, now: int) -> str:
    """Return a request as AAP shows it, as the text of JSON."""
    decision = decided(history, now)
    fields = received(history.asked)
    own: dict[str, Any] = {
        "id": id_of(history.id),
        "status": status_of(decision),
        "created_at": timestamp(history.begun_at),
        "deadline_at": timestamp(deadline_of(history)),
    }
    own |= {} if decision is None else {"decision": decision}
    if history.claimed_at is not None and own["status"] == "approved":
        own["consumption"] = _consumption(history)
    return _object(fields | {name: json.dumps(value) for name, value in own.items()})


def _consumption(history: AskHistory) -> dict[str, Any]:
    made: dict[str, Any] = {"consumed_at": timestamp(history.claimed_at or 0)}
    if history.report is not None:
        outcome, at, said = history.report
        note = "" if said == NOTHING else said
        made["outcome"] = {"status": outcome, "reported_at": timestamp(at)} | ({"note": note} if note else {})
    return made


_STATUS = {
    "approved": "approved",
    "rejected": "denied",
    "answered": "denied",
    "expired": "expired",
    "withdrawn": "cancelled",
}


def _note(first: FirstOutcome) -> str:
    """Return the note of a decision: who decided, and what they said to the caller's model."""
    match first.word:
        case "approved":
            lead = f"Approved by {_who(first)}."
        case "rejected":
            lead = f"Denied by {_who(first)}."
        case "answered":
            given = first.output if isinstance(first.output, str) else canonical(first.output)
            return f"Answered by {_who(first)}; the call was not run. Use this as its result: {given}"
        case _:
            return ""
    return f"{lead} {first.message}" if first.message else lead


def _who(first: FirstOutcome) -> str:
    if not first.policy:
        return first.by or "a user"
    return "a standing approval" if first.by.startswith(BY_GRANT) else "policy"


def _object(fields: dict[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in fields.items()) + "}"
