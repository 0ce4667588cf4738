"""The state of a run: its frames, its live calls, its grants.

Data only; `evolve.py` changes it. Live calls are kept in groups by what the world owes them, until their turn is over.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from . import events as ev
from .approval import Approval
from .beside_events import ReviewWhy
from .call_ids import is_below
from .counted import CountedCall, OwedReturn, QuotaUse
from .digest import bound_words, canonical, keyed_digest
from .empties import NONE, NOTHING_YET
from .items import Item
from .people import Decider
from .preview import Preview
from .records import StepMet
from .states import FRAME_MOVES, RUN_MOVES, Phase, State, Status
from .strict import parse
from .usage import NOTHING, Counts

Kind = Literal["approval", "external", "in_doubt", "review"]

# Why a run stopped whose store was restored from a copy.
RESTORED = "StoreRestored"

_KINDS: dict[str, Kind] = {"in_doubt": "in_doubt", "needs": "external"}


class Call(msgspec.Struct):
    """Tracks one tool call, from proposal to result."""

    id: str  # its place in the run: see `call_ids.py`
    frame: str  # the frame that made it
    agent: str  # the path of the agent that made it
    raw: Item  # the model's own item
    proposal: ev.Proposal  # what would run, and the facts of its tool
    state: State = "proposed"  # see `states.py`
    reason: str = ""  # why it asks, of the verdict that asked
    by: str = ""  # who asked: the tool or a policy
    terms: Approval | None = None  # the terms of the verdict that asked
    asked_at: int = 0  # when it asked last, in milliseconds; later by the time for which it was approved meanwhile
    pended: int = 0  # for how long it had been pending when it was approved, where that is being withdrawn
    decision: ev.Decision | None = None  # the newest decision
    votes: dict[str, ev.Decision] = NONE  # decisions that did not settle it, by decider
    recheck: bool = False  # the newest policy was not asked about the decision yet
    revoked: bool = False  # what let it run before it was in doubt no longer does
    voided: str = ""  # why it was proposed anew
    item: Item | None = None  # its result, as the model reads it
    value: Any = None  # its tool's own value, where the item does not hold it
    shown: str = ""  # the digest of the tool before it was proposed anew
    asks: int = 0  # how often earlier words on it became void
    preview: Preview | None = None  # what people were shown
    approval: ev.Decision | None = None  # the decision that approved it
    cleared: ev.Decision | None = None  # the last decision that let it start
    need: ev.CallNeeds | None = None  # what its tool asks
    supplied: ev.Decision | None = None  # the answer to what its tool asks
    rounds: int = 0  # how many questions its tool has asked
    let: CountedCall | None = None  # its entry in what policies count
    quotas: tuple[str, ...] = ()  # the logs that count it for several runs
    watched: tuple[ev.Watch, ...] = ()  # the counts that are told what becomes of it
    begun: bool = False  # it was started at least once
    started_at: int = 0  # when it was started last, in milliseconds
    started_by: str = ""  # the process, or the caller outside, that started it last
    held_until: int | None = None  # until when an external caller has claimed it
    acted: bool = False  # it may have had an effect that must not be repeated unasked
    doubted: bool = False  # nobody knows what became of an earlier start of it
    warned: bool = False  # somebody was warned that the request will expire
    renewed: str = ""  # the restore after which it asked anew
    confirmed: ev.Decision | None = None  # the requester's word, after which others decide
    claim: ev.CallMarked | None = None  # who said last that they are on it
    snoozes: dict[str, ev.CallMarked] = NONE  # who does not want to see it for a while, by person
    looks: dict[str, int] = NONE  # since when each person has had it on the screen
    withdrawn: tuple[ev.Decision, ...] = ()  # the withdrawals of votes on it, as it is asked now
    met: tuple[StepMet, ...] = ()  # the steps of its chain that are met; `terms` are those of the one that is due
    opened: int = 0  # how often it had been asked anew when that step opened
    review: float = 0.0  # the share of such calls that people look at afterwards
    giver: Decider | None = None  # who gave the grant that let it run last

    @property
    def text(self) -> str:
        """Return the frozen text of what will run."""
        if self.decision is not None and self.decision.args is not None:
            return self.decision.args
        args = self.proposal.args
        return self.raw["arguments"] if args is None else args

    @property
    def edited(self) -> bool:
        """Return whether a person changed the arguments."""
        return self.proposal.edited or (self.decision is not None and self.decision.args is not None)

    @property
    def params(self) -> Any:
        """Return what will run, as a value."""
        return parse(self.text or "{}")

    @property
    def expires_at(self) -> int | None:
        """Return when a decision comes too late, in milliseconds; a doubt and a question never run out."""
        wait = self.terms.expires_ms if self.terms is not None and self.state not in _KINDS else None
        return None if wait is None else self.asked_at + wait

    @property
    def warns_at(self) -> int | None:
        """Return when somebody is to be warned of the expiry; None where nobody is, or was warned already."""
        ends = None if self.warned else self.expires_at
        before = self.terms.warn_before_ms if self.terms is not None else None
        return None if ends is None or before is None else max(ends - before, self.asked_at)

    @property
    def kind(self) -> Kind:
        """Return what is waited for: approval, an external result, or a resolution of a call in doubt."""
        return _KINDS.get(self.state, "approval")

    @property
    def revision(self) -> int:
        """Return how often it was asked, in whatever way; a decision names the revision that it answers."""
        return 1 + self.asks + self.rounds


class Review(msgspec.Struct, frozen=True):
    """Holds a call that others are asked about after it was let run, as it was then; `said` is what they said."""

    call: Call
    why: ReviewWhy
    asked_at: int
    revision: int
    deciders: tuple[str, ...]
    said: ev.ReviewGiven | None = None


class Frame(msgspec.Struct):
    """Tracks one agent at work: the root, or a nested agent on behalf of a call."""

    id: str  # "r" for the root, else the id of the call that it answers
    agent: str  # the path of the agent at work
    items: list[Item | int]  # the conversation; an integer is a place in the session's history
    max_turns: int | None  # the limit of its turns, None for none
    guarding: str  # when its input guardrails report, "" once they have; "ahead" or "along" of messages that came later
    prefix: str | None  # the content address of the session's history
    written: int  # how many items of the tape its session holds
    response_id: str | None  # the provider's id of the last reply
    turn: int = 0  # how many replies it has had
    phase: Phase = "model"  # model, calls, judge or closed
    fresh: bool = True  # its agent has asked no model yet
    judged: bool = False  # the agent judges its tools' results before its model reads them
    used_tools: bool = False  # its agent has called a tool
    replied: int = 0  # how many items the last reply had
    history: int = 0  # how many items it began with, or a handoff left
    sent: int = 0  # how many items the provider has seen
    heard: int = 0  # how many of them it had heard when it began its last reply, or the end of that
    open: int = 0  # how many calls have no result yet
    last: int = 0  # how many of those run after the others
    along: int = 0  # how many of those the provider runs, by the next question
    calls: list[str] = []  # the calls of this turn, by id
    results: list[Call] = []  # settled calls whose results the agent judges
    queued: list[Item] = []  # what the model reads after the results
    unread: bool = False  # a message came with the results: they are no answer before the model has read it
    tape: list[Item] = []  # what its session holds or would hold
    tripped: ev.Report | None = None  # the guardrail report that stopped it
    guards: str = ""  # when they reported on what it began with, "" where it began without any
    unseen: tuple[Item, ...] = ()  # the messages that they have not looked at
    barrier: bool = True  # the model waits for all results; without it, it goes on talking
    before: tuple[str, ...] = ()  # the paths of the agents that were at work in it before, in their order
    invalid: tuple[str, ...] = ()  # the names called by each reply in a row none of whose calls could be made

    def move(self, verb: str) -> None:
        """Go on to the next phase."""
        self.phase = FRAME_MOVES[self.phase, verb]


class Run(msgspec.Struct):
    """Holds everything that is true of a run now."""

    id: str = ""  # the run's id
    copied_from: str = ""  # the run to which decisions are bound while the lines are folded that a fork copied of it
    salt: str = ""  # the key of its request ids
    key: str = ""  # the key of the digests of its calls with secrets
    status: Status = "new"  # see `states.py`
    seq: int = 0  # how many steps it has
    now: int = 0  # the time of the last step, in milliseconds; it never goes back
    input: str | list[Any] = ""  # what its caller gave it
    about: dict[str, Any] = {}  # what its caller said of it
    requester: str | None = None  # the person for whom it acts
    drill: int | None = None  # of a drill, when it ends quietly; nothing of one ever runs
    context: Any = None  # the caller's context, as data
    queued: bool = False  # it waits for its turn on a session, and has not begun
    named: dict[str, str] = NONE  # the digests of the messages that are added once, by their names
    root_agent: str = ""  # the name of the agent it began with
    frames: dict[str, Frame] = {}  # the agents at work, by frame id
    calls: dict[str, Call] = {}  # the live calls, by id
    groups: dict[str, dict[str, Call]] = {}  # the open calls by what the world owes them
    grants: dict[str, ev.GrantTerms] = NONE  # the standing decisions, by id
    grant_uses: dict[str, int] = NONE  # how often each grant was used, revoked ones included
    never: dict[str, tuple[str, str, str]] = NONE  # what each standing rejection is about: name, kind and server
    lent: dict[str, str] = NONE  # the grants that calls of other runs used, by run and call
    taken: dict[str, QuotaUse] = NONE  # what calls of other runs count for here
    spent: Fraction = Fraction(0)  # the sum of that
    closed: bool = False  # no new calls are counted here
    owed: dict[str, OwedReturn] = NONE  # calls of which other logs are still to be told
    decided: dict[str, ev.Decision] = NONE  # the newest decision on each call
    reviews: dict[str, Review] = NONE  # what others are or were asked about, by call; no call waits for it
    tools: dict[str, Any] = NONE  # what the model was told of tools that may ask, by digest
    usage: Counts = NOTHING  # what all models used
    replies: list[tuple[str, Counts]] = []  # each reply's model and usage
    started: int = 0  # how many calls were started
    let: list[CountedCall] = NOTHING_YET  # calls that were let run, for policies that count
    under_policy: bool = False  # a policy judged one of its calls
    rejected: list[CountedCall] = NOTHING_YET  # calls that were rejected, for policies that count
    denied: list[CountedCall] = NOTHING_YET  # calls that were denied, but by a circuit breaker
    failed: list[CountedCall] = NOTHING_YET  # calls whose tools failed
    limits: dict[str, Any] = NONE  # the limits on its usage
    turns: int = 0  # the root's turns so far
    max_turns: int | None = None  # the limit of the root's turns, None for none
    last_agent: str = ""  # the agent that was at work last
    response_id: str | None = None  # the provider's id of the root's last reply
    output: Any = None  # the final output
    error: str = ""  # why it failed
    traceback: str = ""  # where that was raised
    lost: int = 0  # how many holders died taking it up, where it is set aside for that
    restored: str | None = None  # why it stopped, if its store was restored from a copy

    def move(self, verb: str) -> None:
        """Go on to the next status."""
        self.status = RUN_MOVES[self.status, verb]


def used_by(run: str, call: str) -> str:
    """Return the key of a call of another run, under which it is known what it was lent, or what it took."""
    return f"{call} {run}"


def new_run() -> Run:
    """Make a run of which nothing is known yet."""
    return Run(groups=dict.fromkeys(("screen", "run", "settle", "wait", "started"), NONE))


def copy_run(run: Run) -> Run:
    """Copy a run, so that neither changes the other; what nobody changes in place is shared."""
    calls = {name: replace(call) for name, call in run.calls.items()}
    frames = {
        name: replace(
            frame,
            items=frame.items.copy(),
            calls=frame.calls.copy(),
            results=frame.results.copy(),
            queued=frame.queued.copy(),
            tape=frame.tape.copy(),
        )
        for name, frame in run.frames.items()
    }
    return replace(
        run,
        frames=frames,
        calls=calls,
        groups={name: {one: calls[one] for one in held} if held else NONE for name, held in run.groups.items()},
        named=run.named.copy() if run.named else NONE,
        grants=run.grants.copy() if run.grants else NONE,
        grant_uses=run.grant_uses.copy() if run.grant_uses else NONE,
        never=run.never.copy() if run.never else NONE,
        lent=run.lent.copy() if run.lent else NONE,
        taken=run.taken.copy() if run.taken else NONE,
        owed=run.owed.copy() if run.owed else NONE,
        decided=run.decided.copy() if run.decided else NONE,
        reviews=run.reviews.copy() if run.reviews else NONE,
        tools=run.tools.copy() if run.tools else NONE,
        replies=run.replies.copy(),
        let=run.let.copy() if run.let else NOTHING_YET,
        rejected=run.rejected.copy() if run.rejected else NOTHING_YET,
        denied=run.denied.copy() if run.denied else NOTHING_YET,
        failed=run.failed.copy() if run.failed else NOTHING_YET,
    )


_SHORT = 4_096


def canonical_of(text: str) -> str:
    """Return the canonical text of frozen arguments, cached where it is short."""
    return _canonical_of(text) if len(text) <= _SHORT else canonical(parse(text or "{}"))


@lru_cache(maxsize=512)
def _canonical_of(text: str) -> str:
    return canonical(parse(text or "{}"))


def call_digest(run: Run, call: Call) -> str:
    """Return the digest that an approval of this call is bound to."""
    basis = None if call.preview is None else call.preview.basis
    named = run.copied_from or run.id
    text = call.text
    bound = bound_words(named, call.id, call.agent, call.proposal.tool, canonical_of(text), basis, call.asks)
    if call.renewed:  # nor on the same asking of the same copy, when that is brought back a second time
        bound.append(canonical(call.renewed))
    if call.need is not None:
        bound.append(canonical([call.need.requests, call.need.state, call.rounds]))
    short = call.preview is None and call.need is None and len(text) <= _SHORT
    return (_digest_of if short else keyed_digest)(call.proposal.key, *bound)


@lru_cache(maxsize=128, typed=True)
def _digest_of(key: str, *texts: str) -> str:
    """Return the digest of a text, cached where it is short: doors, gate and start ask for it again."""
    return keyed_digest(key, *texts)


def call_shape(call: Call) -> str:
    """Return the digest of what a call would do, whichever call it is; with secrets, whichever of its run."""
    text = call.text
    bound = ["shape", call.proposal.tool, call.state, canonical_of(text)]
    if call.preview is not None and call.preview.basis:
        bound.append(canonical(call.preview.basis))
    if call.need is not None:
        bound.append(canonical([call.need.requests, call.need.state]))
    short = call.preview is None and call.need is None and len(text) <= _SHORT
    return (_digest_of if short else keyed_digest)(call.proposal.key, *bound)


def edit_digest(run: Run, call: Call, args: str, basis: dict[str, str] | None) -> str:
    """Return the digest that an edited call is bound to: the arguments, and what the editor was shown."""
    bound = call.id, call.agent, call.proposal.tool, call.asks, canonical_of(args), basis
    return keyed_digest(call.proposal.key, run.copied_from or run.id, *bound)


def unknown_below(run: Run, frame_id: str) -> list[Call]:
    """Return the calls below a frame that have begun and whose outcome is unknown.

    A nested agent is no such call: it ends with the frame that asked for it.
    """
    begun = [*run.groups["started"].values(), *run.groups["wait"].values()]
    below = [call for call in begun if is_below(call.id, frame_id) and call.id not in run.frames]
    return [call for call in below if call.state in ("started", "in_doubt")]


def ran_out(run: Run, call: Call) -> bool:
    """Return whether a request has expired, though that may not be recorded yet."""
    return call.expires_at is not None and run.now > call.expires_at


def confirmed(run: Run, call: Call) -> bool:
    """Return whether the requester has confirmed a call, and that is not too long ago."""
    if call.state != "asked":  # what became of a call is no matter of confirming it
        return True
    limit = call.terms.execute_by_ms if call.terms is not None else None
    return call.confirmed is not None and (limit is None or run.now <= call.confirmed.at + limit)


def terms_now(run: Run, call: Call) -> Approval | None:
    """Return the terms on which a call waits now: where it takes two steps, those of the step that is due."""
    terms = call.terms
    return terms.at_step(confirmed=confirmed(run, call)) if terms is not None and terms.confirm else terms


def stated_terms(call: Call) -> Approval | None:
    """Return the terms on which a call was asked: of a chain all steps, whichever is due."""
    return call.met[0].terms if call.met else call.terms


def behind_glass(call: Call) -> Approval | None:
    """Return the terms for who decides a call alone in an emergency: of a chain those of all its steps, met or not."""
    terms = stated_terms(call)
    return None if terms is None else terms.behind_glass()


def in_chain(call: Call) -> bool:
    """Return whether a request is one of several steps, of which one is due."""
    return call.state in ("asked", "in_doubt") and (bool(call.met) or has_next_step(call))


def has_next_step(call: Call) -> bool:
    """Return whether another step of its chain follows the one that is due."""
    return call.terms is not None and call.terms.then is not None


def allowed_by(call: Call) -> ev.Decision | None:
    """Return the decision that lets a call run; a probe's answer to a doubt decides nothing anew."""
    decision = call.decision
    return call.cleared if decision is not None and decision.via == "probe" else decision


def undo_until(call: Call) -> int | None:
    """Return until when the approval of a call can be withdrawn before it starts; None where it is not held."""
    decision = allowed_by(call)
    return None if decision is None or not decision.undo_ms else decision.at + decision.undo_ms


def request_id(run: Run, call_id: str) -> str:
    """Return the unguessable public name of a call's request."""
    return blake2b(call_id.encode(), key=run.salt.encode(), digest_size=16).hexdigest()
