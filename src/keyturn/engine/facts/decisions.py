"""Turn what people say about a request into decisions: once, for every door.

A state in hand, the context, the console, a tool's `on_approval` and the inbox all come through here, so that a word
means the same and is refused in the same words wherever it is said. Who may say it is judged by the gate.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, cast

from ...core import events as ev
from ...core.approval import Approval
from ...core.errors import NotAllowed, NotPending, UserError
from ...core.gate.words import lacks_reason, says_something
from ...core.people import Decider, Proof, barred, plain_text
from ...core.people import decider as decider_of
from ...core.predicates.predicate import compared_secret
from ...core.records import Via, Word
from ...core.request import Request
from ...policies.grants import Grant, check_fits
from ..run.new_ids import new_id
from .values import said_output

Outcome = Literal["ran", "did_not_run", "retry"]
_WAITS = {
    "approval": "requires an approval: use approve(), reject() or answer()",
    "external": "requires an answer and not an approval: use answer() or reject()",
    "in_doubt": "is in doubt and must be resolved: use resolve()",
    "review": "has run already and is to be reviewed: use review()",
}


class MadeDecision(NamedTuple):
    """Holds a decision, and the standing decision that was given with it."""

    decision: ev.Decision
    grant: ev.GrantTerms | None = None


class DecisionWords(TypedDict, total=False):
    """Holds what goes with any decision: who says it, a note for the record, a signature, and the way in."""

    by: str | Decider | None
    note: str | None
    proof: Proof | None
    via: Via


class Edit(NamedTuple):
    """Holds edited arguments: the text that will run, as its tool validated it, and what the editor was shown.

    `key` is the key of the call's digests, where it has secrets.
    """

    args: str
    basis: dict[str, str] | None = None
    key: str = ""


def approve(
    request: Request,
    now: int,
    *,
    edit: Edit | None = None,
    grant: Grant | None = None,
    reach: str = "",
    broke_glass: bool = False,
    undo_ms: int = 0,
    **words: Unpack[DecisionWords],
) -> MadeDecision:
    """Approve exactly this call, or with other arguments, and later ones that a grant covers.

    `reach` names the other runs for which the grant holds, as `reach_of` does. With `broke_glass` somebody approves
    alone whom the terms let do so in an emergency. For `undo_ms` the call does not start.
    """
    if broke_glass and (edit is not None or grant is not None or not says_something(words.get("note"))):
        raise UserError("an emergency override approves this one call as it is and requires a reason: pass note=")
    if grant is not None and undo_ms:
        raise UserError("undo= is for the approval of one call: a grant holds at once, and is revoked by itself")
    if edit is None:
        made = _decision(request, "approve", now, words, broke_glass=broke_glass, undo_ms=undo_ms)
    else:
        made = _decision(request, "edit", now, words, args=edit.args, basis=edit.basis, key=edit.key, undo_ms=undo_ms)
    return MadeDecision(made, None if grant is None else _standing(request, grant, made, now, reach))


def reject(
    request: Request, now: int, *, message: str | None = None, always: bool = False, **words: Unpack[DecisionWords]
) -> MadeDecision:
    """Reject the call, and later calls of its tool by its agent with `always`; the model is told `message`."""
    made = _decision(request, "reject", now, words, message=message)
    return MadeDecision(made, _standing(request, Grant(), made, now) if always else None)


def ask_back(request: Request, now: int, question: str, **words: Unpack[DecisionWords]) -> MadeDecision:
    """Reject the call with a question that its agent answers before it proposes the call again."""
    if request.kind != "approval":
        raise NotPending(f"the agent can be asked about a call that requires approval; this {_WAITS[request.kind]}")
    if not says_something(plain_text(question, "a question")):
        raise UserError("the question to the agent is empty: pass question=")
    return MadeDecision(_decision(request, "reject", now, words, message=question, asks_back=True))


def answer(request: Request, now: int, output: object, **words: Unpack[DecisionWords]) -> MadeDecision:
    """Give the call's result in its tool's place, or what its tool asked for."""
    return MadeDecision(_decision(request, "answer", now, words, output=said_output(output, "an answer")))


def resolve(
    request: Request, now: int, outcome: Outcome, output: object = None, **words: Unpack[DecisionWords]
) -> MadeDecision:
    """Resolve a call in doubt: it ran, with this output, it did not, or it is to be retried."""
    if outcome not in ("ran", "did_not_run", "retry"):
        raise UserError(f"a call in doubt ran, did_not_run or is to retry, not {outcome!r}")
    if output is not None and outcome != "ran":
        raise UserError(f"only a call that ran has an output: omit output=, or pass 'ran' instead of {outcome!r}")
    return MadeDecision(_decision(request, outcome, now, words, output=said_output(output, "an output")))


def _decision(request: Request, verdict: Word, now: int, words: DecisionWords, **facts: Any) -> ev.Decision:
    check_verdict(request, verdict)
    who = decider_of(words.get("by"))
    terms = request.terms_now
    if facts.get("broke_glass"):
        terms = request.behind_glass
        if terms is None:
            raise NotAllowed(f"the terms of {request.tool!r} allow no emergency override")
    sure = request.confirmed is not None and who is not None and (request.confirmed.by, verdict) == (who.id, "approve")
    if words.get("via") != "probe" and not sure:  # the gate would say so, too, but later
        _check_terms(request, terms, words)
    for text, what in ((words.get("note"), "a note"), (facts.get("message"), "a message")):
        if text is not None:
            plain_text(text, what)
    made = ev.Decision(
        request.call,
        verdict,
        request.digest,
        now,
        decider=who,
        via=words.get("via", "person"),
        note=words.get("note"),
        proof=words.get("proof"),
        withdrawals=len(request.withdrawn),
        **facts,
    )
    if request.kind == "approval" and lacks_reason(request.terms, made):
        raise UserError("this decision requires a reason: pass note=, or a message for a rejection")
    return made


def check_verdict(request: Request, verdict: Word) -> None:
    """Refuse a verdict that cannot be given on this request."""
    if verdict in request.verdicts:
        return
    if verdict == "edit" and "approve" in request.verdicts:
        if request.waits_for:
            raise UserError(f"a call that its requester confirms cannot be edited: reject {request.tool!r} instead")
        if request.steps:
            raise UserError(f"a call of an approval chain cannot be edited: reject {request.tool!r} instead")
        raise UserError(f"the arguments of {request.tool!r} cannot be edited; approve or reject the call as it is")
    if verdict == "answer" and request.waits_for == "requester" and "approve" in request.verdicts:
        raise UserError(f"its requester confirms or rejects {request.tool!r} first; others can answer it afterwards")
    if verdict == "answer" and request.step < request.steps:
        raise UserError(
            f"{request.tool!r} can be answered in the last step of its approval chain, step {request.steps}"
        )
    if verdict == "answer" and "approve" in request.verdicts:
        raise UserError(f"{request.tool!r} runs elsewhere and cannot be answered; approve() or reject() it")
    raise NotPending(f"this call {_WAITS[request.kind]}")


def check_may(request: Request, words: DecisionWords) -> None:
    """Refuse whoever may not decide a request as it is asked now."""
    _check_terms(request, request.terms_now, words)


def _check_terms(request: Request, terms: Approval | None, words: DecisionWords) -> None:
    who = decider_of(words.get("by"))
    why = barred(terms, who, request.requester, words.get("proof"))
    if why:
        raise NotAllowed(
            f"{request.tool!r} cannot be decided by {'an unnamed approver' if who is None else who.id}: {why}"
        )


def check_compared(grant: Grant, secrets: Collection[str]) -> None:
    """Refuse a grant that compares a secret: which calls it covers would tell what the secret is."""
    secret = compared_secret(grant.where or {}, secrets)
    if secret is not None:
        raise UserError(f"a grant cannot compare {secret!r}, which is secret or holds a secret; leave it out of where=")


def _standing(request: Request, grant: Grant, made: ev.Decision, now: int, reach: str = "") -> ev.GrantTerms:
    given = cast("object", grant)
    if not isinstance(given, Grant):
        raise UserError(f"grant is a Grant(...), not a {type(given).__name__}")
    check_compared(given, request.secrets)
    check_fits(given.where, request.params)
    verdict = "reject" if made.verdict == "reject" else "approve"
    words = {"verdict": verdict, "message": made.message, "decider": made.decider, "reach": reach}
    return grant.terms(new_id(), request.agent, request.tool_digest, now, **cast("Any", words))
