"""Say what a decision came to: what was recorded, who is still needed, what happens next, and what can be undone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from ..core.approval import Approval
from ..core.records import RUNS
from ..core.request import Request, Vote
from ..journal.rows import RequestRow
from ..render.escape import quote
from ..render.plural import plural
from ..render.verdicts import STATES, votes_alike
from .asking import TimeWords, approvals, own_vote, said_so_far, step_words
from .clock import in_ms
from .terms import people_of
from .trail import VIEWED, VOTE, TrailMark

#: How many approvers are named; of more, it says how many there are.
NAMED = 4

_DID = {
    "approve": "You approved this call",
    "edit": "You approved this call with other arguments",
    "reject": "You rejected this call",
    "asked_back": "You asked the agent a question about this call",
    "answer": "You answered this call",
    "ran": "You resolved this call: it ran",
    "did_not_run": "You resolved this call: it did not run",
    "retry": "You approved another run of this call",
    "right": "You reviewed this call: right",
    "wrong": "You reviewed this call: wrong",
}
_VOTED = {
    "edit": "You approved with other arguments",
    "answer": "You answered",
    "retry": "You approved another run",
}
_NEXT = {
    "asked_back": "The call does not run. The agent reads your question, and can request approval again.",
    "answer": "The tool does not run. The agent reads your answer as the result.",
    "ran": "The agent reads that it ran, without a result. Nothing runs again. It cannot be undone.",
    "did_not_run": "The agent reads that the call did not run. Nothing runs again. It cannot be undone.",
    "expire": "The call does not run. The agent reads that it expired.",
    "right": "The review is on record.",
    "wrong": "The review is on record. What ran is not undone.",
}
#: What is said of a request that expired, to each person who could have decided it.
MISSED = (
    "You missed this one.",
    "It expired before it was decided; you could have decided it. The call did not run. "
    "The agent reads that it expired, and can request approval again.",
)
#: What an answer to a question of the agent does, before it is given.
ANSWERS = "The agent continues with your answer at once: it cannot be undone."
#: What cannot be undone of the answers to a call in doubt.
FINAL = "“It ran” and “It did not run” cannot be undone."
_REJECTED = "The call does not run. The agent reads that it was rejected"
_RUNS = ("approve", "edit", "retry")


class Recorded(NamedTuple):
    """Holds what a person did about a request, to be shown where they did it.

    `undo` says what they can withdraw: their "vote", the "approval", or "" for nothing. The call starts in `left`
    milliseconds, where it is held for that long.
    """

    heading: str
    then: str
    undo: Literal["", "vote", "approval"] = ""
    left: int = 0


def recorded(
    row: RequestRow,
    person: str,
    trail: Sequence[TrailMark],
    now: int,
    people: Sequence[str] = (),
    until: int | None = None,
    *,
    by_caller: bool = False,
) -> Recorded | None:
    """Return what a person did about a request, and what comes of it; None where they did nothing yet.

    `people` are those who can still approve it, by name; `until` is when a call starts that can be undone until then.
    A call that is run `by_caller` is an external caller's.
    """
    own = own_vote(row.request, person)
    if row.state == "open":
        return _withdrawn(row.request, person, trail, people) if own is None else _voted(row.request, own, people)
    if row.by != person and (own is None or row.state == "void"):
        return None
    if row.kind == "external" and row.state in ("answer", "reject"):
        return _of_question(row, trail)
    heading = _heading(row, person)
    if row.state == "reject":
        return Recorded(heading, f"{_REJECTED}{_with_reason(row, trail, person)}")
    if row.state == "ran" and any(mark.kind == "decided" and mark.given for mark in trail):
        return Recorded(heading, "The agent reads the result that you gave. Nothing runs again. It cannot be undone.")
    if row.state not in _RUNS:
        return Recorded(heading, _NEXT.get(row.state, ""))
    left = 0 if until is None else max(until - now, 0) // 100 * 100
    return _let_run(heading, trail, left, starts_soon(by_caller=by_caller))


def _of_question(row: RequestRow, trail: Sequence[TrailMark]) -> Recorded:
    """Say what came of a question of the agent, to a person who answered or rejected it."""
    if row.state == "answer":
        return Recorded("You answered.", "The agent continues with your answer. It cannot be undone.")
    return Recorded(
        "You rejected this question.",
        f"The agent reads that it was not answered{_with_reason(row, trail, row.by or '')}",
    )


def _with_reason(row: RequestRow, trail: Sequence[TrailMark], person: str) -> str:
    """Say how a sentence goes on about a rejection: with which reason the agent reads it."""
    last = next((mark for mark in reversed(trail) if mark.kind == "decided"), None)
    whose = "your" if row.by == person else "their"
    return f", with {whose} reason." if last is not None and last.messaged else ", without a reason."


def _heading(row: RequestRow, person: str) -> str:
    """Say who decided a closed request, with the person who reads it first."""
    others = [name for name in deciders(row) if name != person]
    if row.state == "expire":
        return "The request expired before it was decided."
    if row.by != person and person not in deciders(row):
        return f"{row.by} decided it, against your vote: {STATES.get(row.state, row.state)}."
    if not others:
        return f"{_DID.get(row.state, STATES.get(row.state, row.state))}."
    return f"You and {', '.join(others)} {STATES.get(row.state, row.state)} this call."


def _withdrawn(request: Request, person: str, trail: Sequence[TrailMark], people: Sequence[str]) -> Recorded | None:
    """Say that the last thing a person did about an open request was to withdraw their vote, or its approval."""
    own = [mark for mark in trail if mark.by == person and mark.kind != VIEWED][-1:]
    if own and own[0].kind in (VOTE, "decided"):
        return _lost(request, own[0], trail, people)
    if not own or own[0].kind != "withdrawn":
        return None
    if own[0].word.startswith("vote"):
        return Recorded("You withdrew your vote.", still_needed(request, people))
    then = "The call did not run, and is pending approval again."
    if (request.terms_now or Approval()).quorum > 1 or request.steps:
        then = f"{then} All votes were withdrawn with it. {still_needed(request, people)}"
    return Recorded("You withdrew the approval.", then)


def _lost(request: Request, vote: TrailMark, trail: Sequence[TrailMark], people: Sequence[str]) -> Recorded | None:
    """Say that another approver withdrew the approval for which a person had voted."""
    later = [mark for mark in trail if mark.line > vote.line and mark.kind == "withdrawn" and mark.by != vote.by]
    if not later or not later[-1].word.startswith("approval"):
        return None
    return Recorded(f"{later[-1].by} withdrew the approval, and with it your vote.", still_needed(request, people))


def _voted(request: Request, own: Vote, people: Sequence[str]) -> Recorded:
    terms = request.terms_now or Approval()
    for number, step in enumerate(request.met, 1):
        if own in step.votes:
            did = "confirmed" if step.terms.confirm else "approved"
            return Recorded(f"You {did} step {number} of {request.steps}.", still_needed(request, people), "vote")
    if request.confirmed is not None and own is request.confirmed:
        return Recorded("You confirmed this call.", still_needed(request, people), "vote")
    if own.verdict == "reject":
        left = terms.deny_quorum - sum(vote.verdict == "reject" for vote in request.votes)
        then = f"{_count(left, 'more rejection')} from {people_of(terms)} would end it for everyone."
        return Recorded(f"You rejected ({terms.deny_quorum - left} of {terms.deny_quorum}).", then, "vote")
    count = f"{votes_alike(own.verdict, [vote.verdict for vote in request.votes])} of {terms.quorum}"
    count = f"{step_words(request)}, {count}" if request.steps else count
    did = _VOTED.get(own.verdict, "You approved")
    return Recorded(f"{did} ({count}).", still_needed(request, people), "vote")


def claim_words(request: Request, person: str, now: int, worded: TimeWords) -> str:
    """Say who claimed an open request, and until when, to a person; "" where it is not claimed."""
    by, claim = request.claimed_by(now), request.claim
    if claim is None or not by:
        return ""
    until = worded(in_ms(claim.until))
    if by == person:
        return f"You claimed it until {until}: other approvers see that you are deciding it."
    return f"{by} claimed it until {until}, and is deciding it. Other approvers can still decide."


def starts_soon(*, by_caller: bool = False) -> str:
    """Say when an approved call starts that has not started yet."""
    starts = "The external caller can run it now." if by_caller else "It starts as soon as a worker takes up the run."
    return f"{starts} Until then you can undo it."


def _let_run(heading: str, trail: Iterable[TrailMark], left: int, waits: str) -> Recorded:
    """Say how far a call got that may run; `left` is for how many milliseconds it is held still."""
    then, undo = waits, True
    for mark in trail:
        if mark.kind == "decided":
            then, undo = waits, True
        elif mark.kind == "started":
            then, undo = "It started, and has not ended yet.", False
        elif mark.kind == "ended":
            then, undo = "It ran, and returned its result.", False
        elif mark.kind == "failed":
            then, undo = "It ran, and failed.", False
        elif mark.kind in ("denied", "lost"):
            then, undo = "It did not go on: see what happened above.", False
    if undo and left:
        return Recorded(heading, "", "approval", left)
    return Recorded(heading, then, "approval" if undo else "")


def deciders(row: RequestRow) -> list[str]:
    """Return who decided a closed request, in the order of their decisions: each of a quorum, and of each step.

    >>> from datetime import UTC, datetime
    >>> deciders(RequestRow("1", "run", "r/1.0", "approval", "pay", "desk", "d", 0))
    []
    """
    alike = RUNS if row.state in RUNS else (row.state,)
    voted = [vote.by for vote in said_so_far(row.request) if vote.verdict in alike]
    last = [row.by] if row.by and row.state not in ("open", "expire") else []
    return list(dict.fromkeys([*voted, *last])) if last else []


def missing(request: Request) -> int:
    """Return how many approvals an open request still requires."""
    terms = request.terms_now or Approval()
    return max(terms.quorum - approvals(request), 0)


def starts_with(request: Request, *, voted: bool = False) -> str:
    """Say when a call starts that cannot be undone, to a person who `voted` already or not.

    >>> from datetime import UTC, datetime
    >>> at = datetime(2026, 11, 2, tzinfo=UTC)
    >>> asked = Request("5e1f", "run", "r/1.0", "approval", "pay", "desk", "d1", at)
    >>> starts_with(asked, voted=True)
    'the last approval starts the call at once, and it cannot be undone. Until then you can withdraw your vote.'
    >>> starts_with(asked)
    'once approved, the call starts at once, and then cannot be undone.'
    """
    if voted or missing(request) > 1 or len(request.met) + 1 < request.steps:
        return (
            "the last approval starts the call at once, and it cannot be undone. Until then you can withdraw your vote."
        )
    return "once approved, the call starts at once, and then cannot be undone."


def still_needed(request: Request, people: Sequence[str] = ()) -> str:
    """Say who has to approve an open request before it runs; `people` are those who can, by name.

    >>> from datetime import UTC, datetime
    >>> asked = Request("5e1f", "run", "r/1.0", "approval", "pay", "desk", "d1", datetime(2026, 11, 2, tzinfo=UTC))
    >>> still_needed(asked, ["gus", "hana"])
    'One approval from any signed-in user is needed: gus or hana.'
    """
    left = missing(request)
    first = f"{step_words(request).capitalize()}: " if request.steps else ""
    if request.waits_for == "requester" and request.requester:
        return f"{first}{quote(request.requester)} has to confirm it."
    count = _count(left, "more approval" if request.votes else "approval")
    count = count[:1].lower() + count[1:] if first else count
    verb = "is" if left == 1 else "are"
    return f"{first}{count} from {people_of(request.terms_now or Approval())} {verb} needed{_names(people, left)}."


def addressed(people: Sequence[str], reader: str) -> list[str]:
    """Return the names of people as one of them reads them.

    >>> addressed(["ben", "hana"], "hana")
    ['ben', 'you']
    """
    return ["you" if name == reader else name for name in people]


def overrules(request: Request) -> str:
    """Say what a rejection of an open request does.

    >>> from datetime import UTC, datetime
    >>> at = datetime(2026, 11, 2, tzinfo=UTC)
    >>> votes = (Vote("ada", "approve", at),)
    >>> overrules(Request("5e1f", "run", "r/1.0", "approval", "pay", "desk", "d1", at, votes=votes))
    'Rejecting ends the request for everyone and overrules 1 approval. It cannot be undone.'
    """
    terms = request.terms_now or Approval()
    left = terms.deny_quorum - sum(vote.verdict == "reject" for vote in request.votes)
    if left > 1:
        return f"{terms.deny_quorum} rejections end the request; yours is one of them."
    given = approvals(request)
    over = f" and overrules {plural(given, 'approval')}" if given else ""
    return f"Rejecting ends the request for everyone{over}. It cannot be undone."


def _count(number: int, what: str) -> str:
    return f"One {what}" if number == 1 else plural(number, what)


def _names(people: Sequence[str], left: int) -> str:
    """Say who can approve: where not all of them have to, how many do."""
    if not people:
        return ""
    named = [*people[:NAMED], *([f"{len(people) - NAMED} more"] if len(people) > NAMED else [])]
    if left == 1:
        return f": {' or '.join([*filter(None, [', '.join(named[:-1])]), named[-1]])}"
    return f": {f'any {left} of ' if len(people) > left else ''}{', '.join(named)}"
