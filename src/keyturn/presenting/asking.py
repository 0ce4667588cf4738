"""Say what a request is, for a page: one question from facts, who may answer it, who did, and what becomes of it.

Sentences are ours; names and texts of others stand apart from them and are escaped where they are printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, LiteralString, NamedTuple, cast

from ..core.approval import Approval
from ..core.errors import Conflict, KeyturnError
from ..core.gate.reviews import kept_from_review
from ..core.people import Decider, barred, kept_out
from ..core.preview import Text
from ..core.records import RUNS
from ..core.request import Request, Vote
from ..journal.rows import RequestRow
from ..render.arguments import is_arguments
from ..render.escape import escape
from ..render.names import doubtful_names
from ..render.verdicts import STATES as STATES
from ..render.verdicts import takes_two, vote_words
from .clock import in_ms, span, stamp
from .terms import DECIDERS, at_expiry, deciders_of, terms_of

_ASKED = ", asked: "  # as the path of a nested agent says what it was asked

MARKS: dict[str, tuple[str, str]] = {
    "critical": ("▲", "critical risk"),
    "stated": ("▲", "risk stated otherwise"),
    "high": ("▲", "high risk"),
    "medium": ("■", "medium risk"),
    "low": ("●", "low risk"),
    "question": ("◆", "question"),
    "doubt": ("?", "in doubt"),
    "review": ("◇", "review"),
    "": ("○", "risk not stated"),
}

#: The risks that have a mark of their own, from the highest.
RISKS = ("critical", "high", "medium", "low")
FIND_OUT: LiteralString = (
    "To find out, check the system that the tool changes for an effect of these arguments, and what the worker that "
    "started the call logged. Nothing runs while this request is open."
)
NOTHING_RAN = ("reject", "expire", "did_not_run", "answer", "asked_back", "drill_passed", "drill_failed", "void")


def agent_words(path: str, agent: str) -> str:
    """Return which agent requests, by the path of a request: of a nested one also which agent called it.

    >>> agent_words("desk > research, asked: Who sells paper?", "desk/research"), agent_words("", "desk")
    ('research, called by desk', 'desk')
    """
    who, nested, _task = path.partition(_ASKED)
    *outer, own = who.split(" > ")
    return f"{own}, called by {' > '.join(outer)}" if nested and outer else who or agent


def agent_task(path: str) -> str:
    """Return what a nested agent was asked by the agent that called it; "" for any other."""
    return path.partition(_ASKED)[2]


def mark_of(row: RequestRow) -> str:
    """Return which mark stands for a request: what it is of, else its risk."""
    if row.kind == "external":
        return "question"
    if row.kind == "in_doubt":
        return "doubt"
    if row.kind == "review":
        return "review"
    return row.risk if row.risk in RISKS or not row.risk else "stated"


def is_held(row: RequestRow) -> bool:
    """Return whether an approval is held, or its key pressed twice: of a high risk, or one stated in another word."""
    return takes_two(row.risk)


def risk_words(row: RequestRow) -> str:
    """Return the words of a request's mark, with a risk that has none as it is stated."""
    mark = mark_of(row)
    return f"risk: {escape(row.risk, keep='')}" if mark == "stated" else MARKS[mark][1]


def summary_of(request: Request) -> str:
    """Return the line that sums a call up, unless a block says the same under its own heading."""
    texts = [block.text for block in request.preview.blocks if isinstance(block, Text)]
    return "" if request.preview.summary in texts else request.preview.summary


def choices_of(request: Request) -> list[str]:
    """Return the answers that a question offers, where they are all texts."""
    asked: Any = request.requests
    offered: Any = cast("dict[str, Any]", asked).get("choices") if isinstance(asked, dict) else None
    texts = cast("list[Any]", offered) if isinstance(offered, list) else []
    return list(texts) if all(isinstance(each, str) for each in texts) else []


def progress(request: Request) -> str:
    """Return how many of how many said yes, where it takes more than one."""
    terms = request.terms_now
    if terms is None or terms.quorum < 2:
        return ""
    return f"{approvals(request)} of {terms.quorum}"


def step_words(request: Request) -> str:
    """Return which step of an approval chain is due; "" where a request has no steps."""
    return f"step {request.step} of {request.steps}" if request.steps else ""


def vote_of(request: Request) -> str:
    """Word the newest vote on a request that is open still, by how many of how many there are now."""
    terms = request.terms_now or Approval()
    if not request.votes and request.met:
        return f"step {len(request.met)} approved"
    if not request.votes:
        return "confirmed" if request.confirmed is not None else "nothing yet"
    newest = max(request.votes, key=lambda vote: vote.at)
    needed = terms.deny_quorum if newest.verdict == "reject" else terms.quorum
    return vote_words(newest.verdict, [vote.verdict for vote in request.votes], needed)


def approvals(request: Request) -> int:
    """Return how many approved so far; of a call in doubt, that it is run again."""
    return sum(vote.verdict in RUNS for vote in request.votes)


def is_overdue(row: RequestRow, now: int) -> bool:
    """Return whether the deadline of an open request passed, though what becomes of it is not on record yet."""
    return row.state == "open" and row.expires_at is not None and now > row.expires_at


class Standing(NamedTuple):
    """Says what somebody can do about a request, and why not where they cannot.

    `withdraws` says that they have a vote to withdraw, `signs` that their decision, or that withdrawal, is signed.
    """

    verbs: tuple[str, ...]
    why: str = ""
    voted: str = ""
    glass: bool = False
    signs: bool = False
    withdraws: bool = False


def standing(row: RequestRow, who: Decider, *, may: bool) -> Standing:
    """Return what a visitor can do about a request; `may` says whether their login is good for decisions."""
    shown = row.request
    if row.state != "open":
        return Standing((), "It is no longer pending.")
    if not may:
        return Standing((), "Your token does not allow decisions (scope: decide).")
    if row.kind == "review":
        why = kept_from_review(shown.terms, shown.not_for, who, shown.requester)
        return Standing((), f"You cannot review it: {why}.") if why else Standing(tuple(shown.verdicts))
    terms = shown.terms_now
    bare = None if terms is None else terms.unsigned
    why = _voted_earlier(shown, who) or barred(bare, who, shown.requester)
    voted = next((vote.verdict for vote in shown.votes if vote.by in (who.id, who.acting_for)), "")
    behind = shown.behind_glass
    glass = behind is not None and bool(why) and not barred(behind.unsigned, who, shown.requester)
    own = own_vote(shown, who.id) is not None
    if why:
        out = _voted_earlier(shown, who) or kept_out(shown.terms, who, shown.requester)
        signs = glass and behind is not None and behind.needs_proof
        cannot = _opens_later(shown, who) or f"You cannot decide it: {out or why}."
        return Standing((), cannot, voted, glass, signs, own)
    signs = terms is not None and terms.needs_proof
    return Standing(tuple(shown.verdicts), voted=voted, glass=False, signs=signs, withdraws=own)


def overdue_standing(row: RequestRow) -> Standing:
    """Say of a request whose deadline passed that nobody decides it, and what becomes of it."""
    return Standing((), f"Its deadline passed: it is being {at_expiry(row.request.terms_now)}.")


def _voted_earlier(shown: Request, who: Decider) -> str:
    return "you voted in an earlier step of its approval chain" if who.is_any_of(shown.not_for) else ""


def _opens_later(shown: Request, who: Decider) -> str:
    """Return that a later step of an approval chain is somebody's, who cannot decide the one that is due."""
    later = () if shown.terms is None or who.is_any_of(shown.not_for) else shown.terms.in_turn[1:]
    for number, step in enumerate(later, shown.step + 1):
        if not kept_out(step, who, shown.requester):
            return f"You can decide step {number} of {shown.steps}, once the steps before it are approved."
    return ""


def said_so_far(shown: Request) -> list[Vote]:
    """Return the votes on a request, after those of earlier steps and the requester's confirmation."""
    sure = [] if shown.confirmed is None else [shown.confirmed]
    return [*(vote for step in shown.met for vote in step.votes), *sure, *shown.votes]


def own_vote(shown: Request, person: str) -> Vote | None:
    """Return the newest vote of a person on an open request, or their confirmation of it: they can withdraw it."""
    return next((vote for vote in reversed(said_so_far(shown)) if vote.by == person), None)


class Looking(NamedTuple):
    """Says for how long somebody looks at a request before they approve it: in all, and still, in milliseconds.

    `begun` says whether it is on record that they look.
    """

    takes: int
    left: int
    begun: bool


def looking_of(row: RequestRow, person: str, now: int) -> Looking | None:
    """Return for how long somebody still has to look at a request; None where its terms ask for no look."""
    terms = row.request.terms_now
    takes = None if terms is None or row.state != "open" or row.kind == "review" else terms.min_look_ms
    if takes is None:
        return None
    since = next((in_ms(each.at) for each in row.request.looked if each.by == person), None)
    return Looking(takes, takes if since is None else min(takes, max(0, since + takes - now)), since is not None)


#: How a time in milliseconds is worded for a reader.
TimeWords = Callable[[int], str]


class Fact(NamedTuple):
    """Holds one line of what is known of a request: our word for it, data, and our words behind it.

    `ago` says how long ago it was, and `at` of which time, 0 for none: a page counts on from there.
    """

    word: str
    text: str
    after: str = ""
    mark: str = ""
    ago: str = ""
    at: int = 0


def facts_of(row: RequestRow, now: int, worded: TimeWords = stamp) -> list[Fact]:
    """Return why it asks, who may decide, and what holds for it, with times as they are `worded` for the reader.

    >>> row = RequestRow("5e1f", "run", "r/1.0", "approval", "pay", "desk", "d1", 0)
    >>> (found := facts_of(row, 5_000)[-1]).word, found.ago, found.after[:16]
    ('requested', '5 s ago', '1970-01-01 00:00')
    """
    return list(_facts(row, row.request, now, worded))


def _facts(row: RequestRow, shown: Request, now: int, worded: TimeWords) -> Iterator[Fact]:
    if task := agent_task(shown.path):
        yield Fact("task", task, "from the agent that called it")
    again = shown.revision > 1 and row.kind == "approval" and not shown.steps
    if row.reason:
        yield Fact("requested again because" if again else "reason", row.reason)
    given: Any = shown.requests if row.kind == "external" else shown.params
    for name, doubt in doubtful_names([row.agent.rsplit("/", 1)[-1], row.tool], given):
        yield Fact("beware", name, doubt, "warn")
    terms = shown.terms
    who = deciders_of(None if terms is None else terms.alone, confirmed=shown.waits_for == "others")
    yield Fact("who decides", "", f"{step_words(shown)}: {who}" if shown.steps else who)
    for step in () if terms is None else terms.in_turn[1:]:
        yield Fact("then", "", deciders_of(step))
    if shown.requester:
        yield Fact("requester", shown.requester)
    for term in () if terms is None else terms_of(terms.alone):
        if term.about not in DECIDERS and term.about != "expiry":  # which has its time below
            yield Fact(term.about, "", term.text)
    if row.expires_at is not None and row.state == "open":
        yield Fact("expires", "", f"{worded(row.expires_at)}; then {at_expiry(terms)}")
    if shown.started_at is not None and row.kind != "external":
        by = shown.started_by or ""
        started = in_ms(shown.started_at)
        yield Fact("started by", by, worded(started), ago=f"{span(now - started)} ago", at=started)
    if shown.former is not None:
        yield Fact("approved by", shown.former.named or "a grant", STATES.get(shown.former.verdict, ""))
    asked, ago = row.asked_at, f"{span(now - row.asked_at)} ago"
    yield Fact("requested again" if again else "requested", "", worded(asked), ago=ago, at=asked)


def seconds(ms: int) -> str:
    """Return a short time in whole seconds, begun ones included.

    >>> seconds(4_200)
    '5 s'
    """
    return f"{-(-ms // 1_000)} s"


def question_of(row: RequestRow) -> tuple[str, str, str]:
    """Return the one question of a page: words before the tool's name, the name, and words after it."""
    given: Any = row.request.params
    if row.kind == "external":
        return "Answer the question of", row.tool, ""
    if row.kind == "in_doubt":
        return "Did", row.tool, "run?"
    if row.kind == "review":
        return "Was it right to approve", row.tool, "?"
    count = len(cast("dict[str, Any]", given)) if isinstance(given, dict) else 0
    if count and not shows_arguments(row.request):
        return "Run", row.tool, "as shown?"
    these = {0: "without arguments?", 1: "with this argument?"}.get(count, f"with these {count} arguments?")
    return "Run", row.tool, these


def shows_arguments(request: Request) -> bool:
    """Return whether the preview of a call has its arguments, and not only what its tool makes of them."""
    return any(is_arguments(block, request.params) for block in request.preview.blocks)


def guidance_of(row: RequestRow) -> str:
    """Return how to find out what became of a call in doubt; "" for any other request.

    >>> guidance_of(RequestRow("1", "run", "r/1.0", "approval", "pay", "desk", "d", 0))
    ''
    """
    return FIND_OUT if row.kind == "in_doubt" and row.state == "open" else ""


class Voted(NamedTuple):
    """Holds what somebody said, and when."""

    by: str
    word: str
    ago: str
    note: str


def votes_of(shown: Request, now: int) -> list[Voted]:
    """Return who voted already."""
    steps = {vote: number for number, step in enumerate(shown.met, 1) for vote in map(id, step.votes)}
    return [
        Voted(
            each.named,
            STATES.get(each.verdict, each.verdict) + (f", step {steps[id(each)]}" if id(each) in steps else ""),
            span(now - in_ms(each.at)),
            each.note or "",
        )
        for each in said_so_far(shown)
    ]


class Unrecorded(NamedTuple):
    """Says in a heading whether a decision may have been recorded, and what is known of why it was not.

    `unsent` is what was typed with it, where that is recorded nowhere.
    """

    heading: Literal["Not recorded", "May have been recorded"]
    why: str
    unsent: tuple[str, ...] = ()


#: What is said of a decision that a page sent and got no answer to, and of one that is not on record once it got one.
UNANSWERED = Unrecorded(
    "May have been recorded", "the server did not answer. This page shows what is recorded once it does."
)
NOT_ARRIVED = Unrecorded("Not recorded", "the server did not answer when you pressed the button. Press it again.")


def unrecorded(error: Exception, now: int) -> Unrecorded:
    """Return what is said of a decision that failed: where its answer was lost it may be on record.

    >>> from keyturn import StorageError
    >>> unrecorded(StorageError("the line broke"), 0).heading
    'May have been recorded'
    """
    if isinstance(error, KeyturnError) and error.uncertain:
        why = f"The answer was lost, and whether it is on record is not known: look at the request again. {error}"
        return Unrecorded("May have been recorded", why)
    return Unrecorded("Not recorded", _why_not(error, now))


def _why_not(error: Exception, now: int) -> str:
    """Return why a word was not recorded: of a lost race who was first, how long before, and whether anything ran.

    >>> _why_not(Conflict("late", winner="ben", decision="reject", at=1_000), 4_000)
    'ben already decided this, 3 s ago: rejected. Nothing ran.'
    """
    if not isinstance(error, Conflict) or error.winner is None or error.decision is None:
        return error.message if isinstance(error, KeyturnError) else str(error)
    when = "" if error.at is None else f", {span(now - error.at)} ago"
    if error.decision == "start":
        return f"the call has started already{when}."
    ran = " Nothing ran." if error.decision in NOTHING_RAN else ""
    return f"{error.winner} already decided this{when}: {STATES.get(error.decision, error.decision)}.{ran}"
