"""Check the words of a decision: that they fit its verdict, its call, and what every store can hold."""

from __future__ import annotations

from unicodedata import category

from .. import events as ev
from ..approval import Approval
from ..digest import canonical, same
from ..errors import Conflict, UserError
from ..people import Decider, plain_text, same_voice
from ..run import Call, Run, confirmed, has_next_step, in_chain
from ..strict import parse

# The longest time for which a worker holds a call that was approved, so that the approval can be undone.
UNDO_MS = 60_000
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a pattern that are drawn as nothing


def decided_before(first: ev.Decision) -> Conflict:
    """Make the `Conflict` that tells whoever comes second who was first."""
    words = f"{first.verdict} by {first.by or 'an unnamed approver'}; the first decision is final"
    return Conflict(f"this call was already decided: {words}", winner=first.by, decision=first.verdict, at=first.at)


def check_words(run: Run, call: Call, decision: ev.Decision) -> None:
    """Check that what a decision says fits its verdict and what the tool was known to take."""
    for words, what in ((decision.note, "a note"), (decision.message, "a message")):
        if words is not None:
            plain_text(words, what)
    if (decision.verdict == "edit") != (decision.args is not None):
        raise UserError("an edit has the arguments to run with, and no other decision has any")
    if decision.args is not None:
        parse(decision.args)
        canonical(decision.basis)
    if decision.metadata is not None and decision.verdict not in ("approve", "edit"):
        raise UserError("metadata is passed to the tool of an approved call, and no other decision has it")
    canonical(decision.metadata)
    if decision.undo_ms:
        _check_undo(call, decision)
    if decision.verdict == "edit" and call.proposal.fixed:
        raise UserError("the arguments of this call cannot be edited; approve or reject it as it is")
    if decision.verdict == "edit" and in_two_steps(call):
        raise UserError("a call that its requester confirms cannot be edited; reject it, or ask the agent")
    if decision.verdict == "edit" and in_chain(call):
        raise UserError("a call of an approval chain cannot be edited: each step approves the same call; reject it")
    if decision.verdict == "answer" and in_chain(call) and has_next_step(call):
        raise UserError("this call can be answered in the last step of its approval chain; approve or reject it")
    if decision.verdict == "answer" and in_two_steps(call) and not confirmed(run, call):
        raise UserError("the requester must confirm or reject this call first; others can answer it afterwards")
    if decision.verdict == "answer" and call.state == "asked" and call.proposal.elsewhere:
        raise UserError("this call runs elsewhere and cannot be answered; approve or reject it")
    if decision.broke_glass and not (
        call.state == "asked" and decision.verdict == "approve" and says_something(decision.note)
    ):
        raise UserError("an emergency override approves a call as it is and requires a reason: pass note=")
    if decision.asks_back and not (
        call.state == "asked" and decision.verdict == "reject" and says_something(decision.message)
    ):
        raise UserError("to ask the agent, pass a question and nothing else")
    if call.state == "asked" and lacks_reason(call.terms, decision):
        raise UserError("this decision requires a reason: pass note=, or rejection_message= for a rejection")


def _check_undo(call: Call, decision: ev.Decision) -> None:
    """Check that a call can be held for a moment after its approval."""
    if decision.verdict not in ("approve", "edit") or call.state != "asked":
        raise UserError("undo= is for an approval: nothing else starts a call")
    if not 0 < decision.undo_ms <= UNDO_MS:
        raise UserError(f"undo= is for at most {UNDO_MS // 1_000} seconds: a worker waits so long before the call")
    lasts = None if call.terms is None else call.terms.lasts_ms
    if lasts is not None and lasts <= decision.undo_ms:
        raise UserError("undo= is as long as execute_by of the terms, or longer: the call could never start")
    if call.proposal.by_provider:
        raise UserError("the provider runs this call with the next question to the model, which waits for nothing")


def says_something(text: str | None) -> bool:
    """Return whether a text has a character that is seen: spaces and what is drawn as nothing give no reason.

    >>> says_something("ok"), says_something(" \u200b\u3164"), says_something(None)
    (True, False, False)
    """
    return any(category(char)[0] not in "CMZ" and char not in _BLANK for char in text or "")


def lacks_reason(terms: Approval | None, decision: ev.Decision) -> bool:
    """Return whether a decision comes without the reason that the terms ask for."""
    if terms is None or says_something(decision.note) or says_something(decision.message):
        return False
    return terms.reason == "required" or (terms.reason == "on_reject" and decision.verdict == "reject")


def in_two_steps(call: Call) -> bool:
    """Return whether a request takes its requester's confirmation and then others' word."""
    return call.state == "asked" and call.terms is not None and call.terms.in_two_steps


def voted_earlier(run: Run, call: Call, who: Decider | None) -> str:
    """Return why somebody, or who acts in their name, voted for a request already that waits for others now."""
    if in_two_steps(call) and confirmed(run, call) and same_voice(call.confirmed and call.confirmed.decider, who):
        return "it requires an approver other than the one who confirmed it"
    met = () if call.state == "needs" else call.met
    if met and any(same_voice(vote.decider, who) for step in met for vote in step.votes):
        return "it requires an approver other than those of the earlier steps"
    return ""


def needed(terms: Approval | None, verdict: str) -> int:
    """Return how many people this verdict takes."""
    if terms is None or verdict in ("ran", "did_not_run"):  # what became of a call is a fact and no permission
        return 1
    return terms.deny_quorum if verdict == "reject" else terms.quorum


def same_decision(one: ev.Decision, other: ev.Decision) -> bool:
    """Return whether two decisions say the same: the verdict, of the same bytes, to the same end."""
    edits = one.args == other.args or one.verdict != "edit"
    no_output = one.output is None and other.output is None
    told = one.message == other.message and (no_output or same(one.output, other.output))
    told = told and (one.metadata is other.metadata or same(one.metadata, other.metadata))
    same_way = (one.broke_glass, one.asks_back) == (other.broke_glass, other.asks_back)
    return (one.verdict, one.digest) == (other.verdict, other.digest) and edits and told and same_way
