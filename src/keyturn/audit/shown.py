"""Derive what people are shown of a call from its log: arguments without secrets, previews, words, reviews."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ..core import events as ev
from ..core.preview import REDACTED, Json, Preview
from ..journal.rows import RequestRow
from .calls import AuditedCall, canonical_text, request_name, value_of
from .deciders import chain_of
from .laws.chains import in_chain
from .run import AuditedReview, AuditedRun

REVIEW = "review:"
_REVIEWED = {
    "glass": "somebody broke the glass and approved it alone; say whether that was right",
    "sample": "it is one of a sample of what ran without a person; say whether that was right",
}


def review_row(log: AuditedRun, review: AuditedReview) -> tuple[RequestRow, dict[str, Any]]:
    """Return the row of what others are asked about a call that was let run, and what its body shows."""
    call, name = review.call, REVIEW + review.call.id
    made, let = call.proposal, call.decision
    params = hidden_in(value_of(call.args), made.secrets)
    row = RequestRow(
        id=request_name(log.salt, name),
        run=log.run,
        call=name,
        kind="review",
        tool=made.name,
        agent=call.agent,
        digest=review.digest,
        asked_at=review.asked_at,
        reason=_REVIEWED[review.why],
        risk=made.risk or "",
    )
    unasked = {"by": call.allowed_by, "verdict": "approve", "at": review.asked_at}
    return row, {
        "revision": review.revision,
        "tool_kind": made.kind,
        "label": made.label,
        "arguments": canonical_text(params) if made.secrets else call.args,
        "params": params,
        "preview": preview_of(call, params),
        "terms": None if call.terms is None else msgspec.to_builtins(call.terms),
        "verdicts": ["right", "wrong"],
        "requester": log.requester,
        "secrets": list(made.secrets),
        "description": str(log.tools.get(made.tool, {}).get("description") or ""),
        "path": call.agent,
        "former": unasked if let is None else said_of(let.by or "", let, made.secrets),
        "reviews": review.why,
        "not_for": list(review.deciders),
    }


def chain_body(call: AuditedCall) -> dict[str, Any]:
    """Return which step of an approval chain is due, how those before it were met, and who voted in them."""
    if not in_chain(call):
        return {"step": 0, "steps": 0, "met": [], "not_for": []}
    secrets, voters = call.proposal.secrets, list[str]()
    met = list[dict[str, Any]]()
    for terms, votes, _looks in call.met:
        said = [said_of(by, vote, secrets) for by, vote in votes.items()]
        met.append({"terms": msgspec.to_builtins(replace(terms, then=None)), "votes": said})
        known = [vote.decider for vote in votes.values() if vote.decider is not None]
        voters += [name for who in known for name in (who.id, who.acting_for) if name]
    steps = len(met) + len(chain_of(call.terms))
    return {"step": len(met) + 1, "steps": steps, "met": met, "not_for": list(dict.fromkeys(voters))}


def hidden_in(value: object, secrets: Collection[str]) -> Any:
    """Redact arguments: "a.b" names what is in "a", through lists as well, and a key that has the dot.

    Of arguments that are one value, which has no name, all is hidden.
    """
    unnamed = value is not None and not isinstance(value, dict | list)
    return REDACTED if secrets and unnamed else _hidden(cast("object", value), secrets)


def _hidden(value: object, secrets: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_hidden(member, secrets) for member in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    seen: dict[str, Any] = {}
    for name, member in cast("dict[str, Any]", value).items():
        inner = [path[len(name) + 1 :] for path in secrets if path.startswith(name + ".")]
        seen[name] = REDACTED if name in secrets else _hidden(member, inner) if inner else member
    return seen


def preview_of(call: AuditedCall, params: object) -> Any:
    """Return the preview where it says more than the arguments do; a row leaves it out where it does not."""
    plain = Preview((Json(params),))
    made = call.preview or call.proposal.preview
    if call.place == "asking" and call.question is not None:
        made = call.question.preview or Preview((Json(call.question.requests),))
    elif call.edited:  # nobody has looked at what a person wrote
        made = None
    return None if made is None or made == plain else msgspec.to_builtins(made)


def mark_of(event: ev.CallMarked) -> dict[str, Any]:
    """Return a mark as a row shows it."""
    return {"by": event.decider.id, "until": event.until}


def said_of(by: str, vote: ev.Decision, secrets: Collection[str]) -> dict[str, Any]:
    """Return a decision as a row shows it."""
    seen: dict[str, Any] = {"by": by, "verdict": vote.verdict, "at": vote.at}
    params = None if vote.args is None else hidden_in(value_of(vote.args), secrets)
    if params is not None:
        seen["params"] = params
    if vote.note is not None:
        seen["note"] = vote.note
    if vote.decider is not None and vote.decider.acting_for:
        seen["acting_for"] = vote.decider.acting_for
    return seen
