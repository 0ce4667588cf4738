"""Describe a call that waits for somebody as a `Request`, made from the run alone.

Console, web, terminal, API and rows all show a `Request`. No live agent or tool is needed to make one, so that
everybody sees the same, whoever has the code at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal, cast

from .approval import Approval, chained
from .beside_events import CallMarked, ReviewWhy
from .call_ids import ROOT, place_of
from .declared import properties_of
from .digest import canonical
from .encodable import Encodable, moment
from .gate.opening import OPENING
from .gate.reviews import review_digest, review_name
from .gate.words import in_two_steps
from .immutable import immutable
from .items import own_copy
from .preview import REDACTED, Json, Preview, redact
from .records import Decision, Word
from .request_votes import Look, Mark, MetStep, Vote
from .run import (
    Call,
    Kind,
    Review,
    Run,
    allowed_by,
    call_digest,
    call_shape,
    confirmed,
    has_next_step,
    in_chain,
    request_id,
)
from .strict import parse
from .values import as_list, as_object

_MANY = 2  # of one argument there is one order
Say = Literal[
    "approve", "edit", "reject", "answer", "ran", "did_not_run", "retry", "expire", "withdraw", "right", "wrong"
]  # fmt: skip
_WHY: dict[ReviewWhy, str] = {
    "glass": "somebody broke the glass and approved it alone; say whether that was right",
    "sample": "it is one of a sample of what ran without a person; say whether that was right",
}
# How much of what an agent was asked stands in the path of a request.
ASKED = 200


def shown_params(call: Call) -> Any:
    """Return what people are shown of a call's arguments: nothing of those that a tool with secrets refused."""
    secrets = call.proposal.secrets
    if call.proposal.refused is None:
        return redact(call.params, secrets)
    return REDACTED if secrets else call.text


@immutable
class Request(Encodable, frozen=True, omit_defaults=True):
    """Describes a call that waits: what would run, why it asks, what people may say, and what was said so far.

    `id` is the request's unguessable name and `revision` how often it was asked; `digest` is what a decision is bound
    to. `kind` says what is waited for: "approval", word of a call "in_doubt", or an "external" answer to `requests`.
    `agent` names the agent in its run, and `path` says in words how the run came to it and what it was asked.
    `tool_kind` and `tool_digest` say which tool it is, `description` is what the model was told of it, and `label` is
    the provider's call id. `params` is what would run, in the order in which the tool declares it, and `arguments` its
    text; what the tool marked as secret is redacted in both. `verdicts` are the words that can be said, `terms` who may
    say them, `requester` for whom the run acts. `difference` is the tool as it was and as it is, where it changed since
    it was shown. Of a call that was started, `started_at` says when, `started_by` names the process if a journal kept
    the run, and `former` is the decision that let it run. `claim` says who is on it and `snoozed` who put it off, each
    until a time that may have passed. Where its requester is to confirm it, `waits_for` says whether the requester or
    the others are waited for, and `confirmed` is what the requester said. `shape` is equal for requests of the same
    tool with the same arguments. `looked` says who has had it on the screen, and since when. `withdrawn` says who
    withdrew a vote on it, as it is asked now, and when. Of an approval chain, `step` of `steps` is due, on `terms`, and
    `met` are the steps before it; who is in `not_for` voted in them. Both numbers are 0 where it has no steps.

    A request of kind "review" is about a call that was let run, and changes nothing of it: `reviews` says why it is
    looked at, `former` is the decision that let the call run, and who is in `not_for` decided it and is not asked.

    Every time is a datetime in UTC. `dict(request)` is plain data, and pydantic and FastAPI encode a request as it is.

    >>> from datetime import UTC, datetime
    >>> asked = Request("5e1f", "run", "r/1.0", "approval", "pay", "desk", "d1", datetime(2026, 11, 2, tzinfo=UTC))
    >>> asked.revision, dict(asked)["asked_at"]
    (1, '2026-11-02T00:00:00Z')
    """

    id: str
    run: str
    call: str
    kind: Kind
    tool: str
    agent: str
    digest: str
    asked_at: datetime
    expires_at: datetime | None = None
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
    verdicts: tuple[Say, ...] = ()
    votes: tuple[Vote, ...] = ()
    requests: Any = None
    difference: Any = None
    requester: str | None = None
    secrets: tuple[str, ...] = ()
    path: str = ""
    description: str = ""
    started_at: datetime | None = None
    started_by: str = ""
    former: Vote | None = None
    claim: Mark | None = None
    snoozed: tuple[Mark, ...] = ()
    shape: str = ""
    waits_for: Literal["", "requester", "others"] = ""
    confirmed: Vote | None = None
    looked: tuple[Look, ...] = ()
    reviews: Literal["", "glass", "sample"] = ""
    not_for: tuple[str, ...] = ()
    withdrawn: tuple[Vote, ...] = ()
    step: int = 0
    steps: int = 0
    met: tuple[MetStep, ...] = ()

    @property
    def terms_now(self) -> Approval | None:
        """Return the terms of the step that is due, where it takes two of them."""
        return None if self.terms is None else self.terms.at_step(confirmed=self.waits_for != "requester")

    @property
    def every_step(self) -> tuple[Approval, ...]:
        """Return the terms of each step of an approval chain, met or not; its terms, where it has no steps."""
        return (*(step.terms for step in self.met), *(() if self.terms is None else self.terms.in_turn))

    @property
    def behind_glass(self) -> Approval | None:
        """Return the terms for who decides it alone in an emergency; None where no one may."""
        return None if self.terms is None else chained(self.every_step).behind_glass()

    def claimed_by(self, now: int) -> str:
        """Return who has claimed it at a time in milliseconds, "" where it is unclaimed."""
        return self.claim.by if self.claim is not None and self.claim.lasts(now) else ""

    def is_snoozed(self, person: str, now: int) -> bool:
        """Return whether a person has snoozed it at a time in milliseconds."""
        return any(mark.by == person and mark.lasts(now) for mark in self.snoozed)


def request_of(run: Run, call: Call) -> Request:
    """Describe a waiting call."""
    made = call.proposal
    tool = run.tools.get(made.tool, {})
    text = call.text
    expires_at = call.expires_at
    shown = redact(_in_order(parse(text or "{}"), tool), made.secrets)
    return Request(
        id=request_id(run, call.id),
        run=run.id,
        call=call.id,
        kind=call.kind,
        tool=made.name,
        agent=call.agent,
        digest=call_digest(run, call),
        asked_at=moment(call.asked_at),
        expires_at=None if expires_at is None else moment(expires_at),
        reason=call.reason,
        risk=made.risk or "",
        revision=call.revision,
        tool_kind=made.kind,
        tool_digest=made.tool,
        label=made.label,
        arguments=canonical(shown) if made.secrets else text,
        params=shown,
        preview=_preview(call, shown),
        terms=call.terms,
        verdicts=_verdicts(run, call),
        votes=tuple([_vote(call, by, said) for by, said in call.votes.items()]) if call.votes else (),
        requests=own_copy(call.need.requests) if call.state == "needs" and call.need is not None else None,
        difference=_difference(run, call),
        requester=run.requester,
        secrets=made.secrets,
        path=_path(run, call),
        description=str(tool.get("description") or ""),
        started_at=moment(call.started_at) if call.begun else None,
        started_by=call.started_by,
        former=_former(call),
        claim=None if call.claim is None else _mark(call.claim),
        snoozed=tuple([_mark(mark) for mark in call.snoozes.values()]) if call.snoozes else (),
        shape=call_shape(call),
        waits_for=_waits_for(run, call),
        confirmed=None if call.confirmed is None else _vote(call, call.confirmed.by or "", call.confirmed),
        looked=tuple([Look(by, moment(at)) for by, at in call.looks.items()]) if call.looks else (),
        withdrawn=tuple([_vote(call, made.by or "", made) for made in call.withdrawn]) if call.withdrawn else (),
        **(_steps_of(call) if in_chain(call) else {}),
    )


def review_of(run: Run, review: Review) -> Request:
    """Describe what others are asked about a call that was let run, as it was then."""
    call = review.call
    made = call.proposal
    name = review_name(call.id)
    shown = redact(_in_order(call.params, run.tools.get(made.tool, {})), made.secrets)
    let = allowed_by(call)
    return Request(
        id=request_id(run, name),
        run=run.id,
        call=name,
        kind="review",
        tool=made.name,
        agent=call.agent,
        digest=review_digest(run, review),
        asked_at=moment(review.asked_at),
        reason=_WHY[review.why],
        risk=made.risk or "",
        revision=review.revision,
        tool_kind=made.kind,
        tool_digest=made.tool,
        label=made.label,
        arguments=canonical(shown) if made.secrets else call.text,
        params=shown,
        preview=_preview(call, shown),
        terms=call.terms,
        verdicts=("right", "wrong"),
        requester=run.requester,
        secrets=made.secrets,
        path=call.agent,
        description=str(run.tools.get(made.tool, {}).get("description") or ""),
        former=Vote(call.by, "approve", moment(review.asked_at)) if let is None else _vote(call, let.by or "", let),
        reviews=review.why,
        not_for=review.deciders,
    )


def waiting_calls(run: Run) -> list[Call]:
    """Return every waiting call, in the order in which the model made them."""
    return sorted(run.groups["wait"].values(), key=lambda call: place_of(call.id))


def _steps_of(call: Call) -> dict[str, Any]:
    """Return which step of an approval chain is due, how those before it were met, and who voted in them."""
    said = [(step, [(vote.by or "", vote) for vote in step.votes]) for step in call.met]
    met = [MetStep(step.terms.alone, tuple(_vote(call, by, vote) for by, vote in votes)) for step, votes in said]
    voters = [vote.decider for _, votes in said for _, vote in votes if vote.decider is not None]
    left = 0 if call.terms is None else len(call.terms.in_turn)
    names = dict.fromkeys(name for who in voters for name in (who.id, who.acting_for) if name)
    return {"step": len(met) + 1, "steps": len(met) + left, "met": tuple(met), "not_for": tuple(names)}


def _waits_for(run: Run, call: Call) -> Literal["", "requester", "others"]:
    if call.terms is None or not call.terms.confirm:
        return ""
    return "others" if call.terms.four_eyes and confirmed(run, call) else "requester"


def _verdicts(run: Run, call: Call) -> tuple[Word, ...]:
    words = OPENING[call.state]
    made = call.proposal
    if in_two_steps(call):
        answered = confirmed(run, call) and not made.elsewhere
        return tuple(word for word in words if word != "edit" and (answered or word != "answer"))
    chain = in_chain(call)
    if call.state != "asked" or not (made.fixed or made.elsewhere or chain):
        return words
    without = {"edit": made.fixed or chain, "answer": made.elsewhere or has_next_step(call)}
    return tuple(word for word in words if not without.get(word, False))


def _preview(call: Call, shown: object) -> Preview:
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


def _vote(call: Call, by: str, said: Decision) -> Vote:
    params = None if said.args is None else redact(parse(said.args), call.proposal.secrets)
    acting_for = "" if said.decider is None else said.decider.acting_for
    return Vote(by, said.verdict, moment(said.at), params, said.note, acting_for)


def _mark(event: CallMarked) -> Mark:
    return Mark(event.decider.id, moment(event.until or 0))


def _former(call: Call) -> Vote | None:
    """Return the decision that let a started call run, or None for a call that needed none."""
    said = (allowed_by(call) or call.approval) if call.begun else None
    return None if said is None else _vote(call, said.by or "", said)


def _in_order(params: object, tool: dict[str, Any]) -> Any:
    """Return arguments in the order in which the tool declares them, and then the others as they stand."""
    given = cast("dict[str, Any]", params)
    schema = as_object(tool.get("schema"))
    if not isinstance(params, dict) or len(given) < _MANY:
        return given
    declared = list(properties_of(schema))
    # A log that was written before specs were kept in their order has sorted properties; a list keeps its order.
    names = [name for name in as_list(schema.get("required")) if isinstance(name, str)]  # it may list anything
    declared = names if len(names) == len(declared) else declared
    return {name: given[name] for name in (*declared, *given) if name in given}


def _path(run: Run, call: Call) -> str:
    """Say in words how the run came to the agent of a call: "desk > research, asked: Who sells paper?"."""
    if call.frame == ROOT and call.agent == run.root_agent:
        return call.agent
    outer = list(_outer(run, call))
    words = list[str]()
    before = None
    for agent in [*(each.agent for each in outer), call.agent]:
        words += _hops(run.root_agent, before, agent)
        before = agent
    named = " > ".join(words)
    return f"{named}, asked: {_asked(outer[-1])}" if outer else named


def _outer(run: Run, call: Call) -> Iterator[Call]:
    """Yield the calls that agents answer on the way from the root to a call, the outermost first."""
    above = run.calls.get(call.frame) if call.frame != ROOT else None
    if above is not None:
        yield from _outer(run, above)
        yield above


def _hops(root: str, before: str | None, agent: str) -> list[str]:
    """Return the names on the way from one agent to another: a run knows agents by paths like "desk/research"."""
    if before is None:
        rest = agent.removeprefix(f"{root}/")
        return [root] if agent == root else [root, *rest.split("/")]
    return agent.removeprefix(f"{before}/").removeprefix(f"{root}/").split("/")


def _asked(call: Call) -> str:
    """Return what an agent was asked by the call that it answers: its one text, or all arguments; cut with a mark."""
    text = asked_text(redact(call.params, call.proposal.secrets))
    return text if len(text) <= ASKED else f"{text[:ASKED]}[...]"


def asked_text(given: object) -> str:
    """Return arguments as one text: the only one there is, if that is a text, else all as JSON.

    >>> asked_text({"input": "Who sells paper?"}), asked_text({"n": 1})
    ('Who sells paper?', '{"n":1}')
    """
    only = list(cast("dict[str, Any]", given).values()) if isinstance(given, dict) else []
    return only[0] if len(only) == 1 and isinstance(only[0], str) else canonical(cast("Any", given))


def _difference(run: Run, call: Call) -> Any:
    """Return what changed about the tool since it was last shown: the old and the new description of it."""
    if not call.shown or call.shown == call.proposal.tool:
        return None
    return own_copy({"before": run.tools.get(call.shown), "after": run.tools.get(call.proposal.tool)})
