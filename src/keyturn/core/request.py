"""Describe a call that waits for somebody as a `Request`, made from the run alone.

Console, web, terminal, API and rows all show a `Request`. No live agent or tool is needed to make one, so that
everybody sees the same, whoever has the code at hand.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .call_ids import place_of
from .digest import canonical
from .gate import OPENING
from .items import Item, own_copy
from .policy import Approval
from .preview import Json, Preview, redact
from .records import Word
from .run import Call, Kind, Run, call_digest, request_id
from .strict import parse


class Vote(msgspec.Struct, frozen=True, omit_defaults=True):
    """Describes a vote on a request that takes several people.

    `params` are those of an edit, secrets redacted.

    >>> Vote("ada", "approve", 5).by
    'ada'
    """

    by: str
    verdict: Word
    at: int
    params: Any = None
    note: str | None = None


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """Describes a call that waits: what would run, why it asks, what people may say, and what was said so far.

    `id` is the request's unguessable name and `revision` how often it was asked; `digest` is what a decision is bound
    to. `kind` says what is waited for: "approval", word of a call "in_doubt", or an "external" answer to `requests`.
    `agent` is the agent's path, `tool_kind` and `tool_digest` say which tool it is, `label` is the provider's call id.
    `params` is what would run and `arguments` its text; what the tool marked as secret is redacted in both. `verdicts`
    are the words that can be said, `terms` who may say them, `requester` for whom the run acts. `difference` is the
    tool as it was and as it is, where it changed since it was shown.

    >>> Request("5e1f", "run", "r/1.0", "approval", "pay", "desk", "d1", 5).revision
    1
    """

    id: str
    run: str
    call: str
    kind: Kind
    tool: str
    agent: str
    digest: str
    asked_at: int
    expires_at: int | None = None
    reason: str = ""
    risk: str = ""
    revision: int = 1
    tool_kind: str = "function"
    tool_digest: str = ""
    label: str = ""
    arguments: str | None = None
    params: Any = None
    preview: Preview = Preview(())
    terms: Approval | None = None
    verdicts: tuple[Word, ...] = ()
    votes: tuple[Vote, ...] = ()
    requests: Any = None
    difference: Any = None
    requester: str | None = None
    secrets: tuple[str, ...] = ()


def request_of(run: Run, call: Call) -> Request:
    """Describe a waiting call."""
    made = call.proposal
    shown = redact(call.params, made.secrets)
    return Request(
        id=request_id(run, call.id),
        run=run.id,
        call=call.id,
        kind=call.kind,
        tool=made.name,
        agent=call.agent,
        digest=call_digest(run, call),
        asked_at=call.asked_at,
        expires_at=call.expires_at,
        reason=call.reason,
        risk=made.risk or "",
        revision=call.revision,
        tool_kind=made.kind,
        tool_digest=made.tool,
        label=made.label,
        arguments=canonical(shown) if made.secrets else call.text,
        params=shown,
        preview=_preview(call, shown),
        terms=call.terms,
        verdicts=_verdicts(call),
        votes=tuple([_vote(call, by) for by in call.votes]) if call.votes else (),
        requests=own_copy(call.need.requests) if call.state == "needs" and call.need is not None else None,
        difference=_difference(run, call),
        requester=run.requester,
        secrets=made.secrets,
    )


def waiting_calls(run: Run) -> list[Call]:
    """Return every waiting call, in the order in which the model made them."""
    return sorted(run.groups["wait"].values(), key=lambda call: place_of(call.id))


def shown_item(call: Call) -> Item:
    """Return the model's own item of a call, without what the tool marked as secret."""
    if not call.proposal.secrets:
        return call.raw
    return {**call.raw, "arguments": canonical(redact(call.params, call.proposal.secrets))}


def _verdicts(call: Call) -> tuple[Word, ...]:
    words = OPENING[call.state]
    made = call.proposal
    if call.state != "asked" or not (made.fixed or made.elsewhere):
        return words
    without = {"edit": made.fixed, "answer": made.elsewhere}
    return tuple(word for word in words if not without.get(word, False))


def _preview(call: Call, shown: Any) -> Preview:
    """Return what people are shown: what was recorded for them, else the arguments themselves."""
    if call.state == "needs" and call.need is not None:
        asked = call.need.preview
        return Preview((Json(own_copy(call.need.requests)),)) if asked is None else own_preview(asked)
    edited = call.decision is not None and call.decision.args is not None
    recorded = call.preview or call.proposal.preview
    return Preview((Json(shown),)) if edited or recorded is None else own_preview(recorded)


def own_preview(preview: Preview) -> Preview:
    """Return a copy of the preview, so that a reader's changes reach nobody else."""
    blocks = [
        Json(own_copy(block.value), block.label) if isinstance(block, Json) else block for block in preview.blocks
    ]
    return Preview(tuple(blocks), preview.summary, dict(preview.basis))


def _vote(call: Call, by: str) -> Vote:
    said = call.votes[by]
    params = None if said.args is None else redact(parse(said.args), call.proposal.secrets)
    return Vote(by, said.verdict, said.at, params, said.note)


def _difference(run: Run, call: Call) -> Any:
    """Return what changed about the tool since it was last shown: the old and the new description of it."""
    if not call.shown or call.shown == call.proposal.tool:
        return None
    return own_copy({"before": run.tools.get(call.shown), "after": run.tools.get(call.proposal.tool)})
