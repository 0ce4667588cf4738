"""A run as it stands: its frames, its live calls, its grants.

Data only; `evolve.py` is what changes it. Live calls are kept in groups by what the world owes them and
dropped once their turn is over, so that what is open is what costs.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from . import events as ev
from .call_ids import is_below
from .digest import canonical, digest
from .items import Item
from .policy import Approval
from .preview import Preview
from .states import FRAME_MOVES, RUN_MOVES, Phase, State, Status
from .strict import parse
from .usage import NOTHING, Counts

Kind = Literal["approval", "external", "in_doubt"]

# Why a run stopped whose store was restored from a copy.
RESTORED = "StoreRestored"

_PATIENT = ("in_doubt", "needs")
_KINDS: dict[str, Kind] = {"in_doubt": "in_doubt", "needs": "external"}


class Let(msgspec.Struct, frozen=True, gc=False):
    """A call that was let run, or rejected; or, with a sign of -1, one of which it is known now that it did not run."""

    call: str
    agent: str
    proposal: ev.Proposal
    text: str
    at: int
    sign: int = 1


class Call(msgspec.Struct):
    """One tool call, from proposal to result.

    `raw` is the model's own item. `reason`, `by` and `terms` are of the verdict that asked, `asked_at` is when. `asks`
    counts what made an earlier word on the call void, `rounds` the questions of its tool. `decision` is the newest
    word, `approval` the one that approved it, `cleared` the last that let it start, `votes` those that did not settle
    it. `recheck` says that the newest policy has not been asked about the decision yet, `revoked` that what let the
    call run before it was in doubt does not any more, `voided` why the call was proposed anew and `shown` the digest of
    the tool before that. `preview` is what people were shown. `need` is what its tool asks and `supplied` the answer.
    `item` and `value` are its result. `let` is its entry in what policies count, `begun` says that it was started at
    least once, `started_at` when it was last and `started_by` by which process, `acted` that it may have had an effect
    that is not to be repeated unasked, `warned` that somebody was told that time runs out, `renewed` names the restore
    that asked anew.
    """

    id: str
    frame: str
    agent: str
    raw: Item
    proposal: ev.Proposal
    state: State = "proposed"
    reason: str = ""
    by: str = ""
    terms: Approval | None = None
    asked_at: int = 0
    decision: ev.Decision | None = None
    votes: dict[str, ev.Decision] = {}
    recheck: bool = False
    revoked: bool = False
    voided: str = ""
    item: Item | None = None
    value: Any = None
    shown: str = ""
    asks: int = 0
    preview: Preview | None = None
    approval: ev.Decision | None = None
    cleared: ev.Decision | None = None
    need: ev.CallNeeds | None = None
    supplied: ev.Decision | None = None
    rounds: int = 0
    let: Let | None = None
    begun: bool = False
    started_at: int = 0
    started_by: str = ""
    acted: bool = False
    warned: bool = False
    renewed: str = ""

    @property
    def text(self) -> str:
        """The frozen text of what will run."""
        if self.decision is not None and self.decision.args is not None:
            return self.decision.args
        args = self.proposal.args
        return self.raw["arguments"] if args is None else args

    @property
    def edited(self) -> bool:
        """Whether a person changed the arguments."""
        return self.proposal.edited or (self.decision is not None and self.decision.args is not None)

    @property
    def params(self) -> Any:
        """What will run, as a value."""
        return parse(self.text or "{}")

    @property
    def expires_at(self) -> int | None:
        """When a decision comes too late, in milliseconds; a doubt and a question never run out."""
        wait = self.terms.expires_ms if self.terms is not None and self.state not in _PATIENT else None
        return None if wait is None else self.asked_at + wait

    @property
    def warns_at(self) -> int | None:
        """When somebody is to be told that time runs out; None where nobody is, or was told already."""
        ends = None if self.warned else self.expires_at
        before = self.terms.warn_before_ms if self.terms is not None else None
        return None if ends is None or before is None else max(ends - before, self.asked_at)

    @property
    def kind(self) -> Kind:
        """What is waited for: approval, an external result, or word of a call in doubt."""
        return _KINDS.get(self.state, "approval")

    @property
    def revision(self) -> int:
        """How often it was asked about, in whatever way: a decision names the asking that it answers."""
        return 1 + self.asks + self.rounds


class Frame(msgspec.Struct):
    """One agent at work: the root, or a nested agent on behalf of a call.

    `items` is the conversation, an integer standing for an item of the session's history `prefix`; `history` says how
    many of them it began with, `sent` how many the provider has seen, `replied` how many the last reply had. `written`
    and `tape` are what its session holds and is to hold. `guarding` says that input guardrails have not reported,
    `tripped` which said stop. `fresh` says that no model was asked yet, `judged` that the agent looks at its tools'
    results, `used_tools` that it called any. `open` counts the calls without a result, `last` those of them that run
    after the others, `calls` names those of the turn, `results` are those to be judged, `queued` what is read after
    them. Without `barrier` the model goes on talking while calls are open.
    """

    id: str
    agent: str
    items: list[Item | int]
    max_turns: int | None
    guarding: str
    prefix: str | None
    written: int
    response_id: str | None
    turn: int = 0
    phase: Phase = "model"
    fresh: bool = True
    judged: bool = False
    used_tools: bool = False
    replied: int = 0
    history: int = 0
    sent: int = 0
    open: int = 0
    last: int = 0
    calls: list[str] = []
    results: list[Call] = []
    queued: list[Item] = []
    tape: list[Item] = []
    tripped: ev.Report | None = None
    barrier: bool = True

    def move(self, verb: str) -> None:
        """Go on to the next phase."""
        self.phase = FRAME_MOVES[self.phase, verb]


class Run(msgspec.Struct):
    """Everything that is true of a run now.

    `salt` keys its request ids, `seq` counts its steps and `now` is their time, which never goes back; while a command
    is decided, `clock` is what the clock says. `requester` is for whom it acts. `about` is what the caller said of it,
    `context` the caller's own. `groups` holds the open calls by what the world owes them. `grant_uses` counts the uses
    of each grant that was ever given, `decided` holds the newest word on each call, `tools` what the model was told of
    tools that may ask, by digest. `usage` and `replies` are what models used, `started` counts started calls, `let` and
    `rejected` are what policies count, `limits` are those on the usage. `under_policy` says that a policy judged one of
    its calls. `turns` and `response_id` are the root's. `restored` is why it stopped, if that was a copy of its store.
    """

    id: str = ""
    salt: str = ""
    status: Status = "new"
    seq: int = 0
    now: int = 0
    clock: int = 0
    input: str | list[Any] = ""
    about: dict[str, Any] = {}
    requester: str | None = None
    context: Any = None
    root_agent: str = ""
    frames: dict[str, Frame] = {}
    calls: dict[str, Call] = {}
    groups: dict[str, dict[str, Call]] = {}
    grants: dict[str, ev.GrantTerms] = {}
    grant_uses: dict[str, int] = {}
    decided: dict[str, ev.Decision] = {}
    tools: dict[str, Any] = {}
    usage: Counts = NOTHING
    replies: list[tuple[str, Counts]] = []
    started: int = 0
    let: list[Let] = []
    under_policy: bool = False
    rejected: list[Let] = []
    limits: dict[str, Any] = {}
    turns: int = 0
    max_turns: int | None = None
    last_agent: str = ""
    response_id: str | None = None
    output: Any = None
    error: str = ""
    restored: str | None = None

    def move(self, verb: str) -> None:
        """Go on to the next status."""
        self.status = RUN_MOVES[self.status, verb]


def new_run() -> Run:
    """A run of which nothing is known yet."""
    return Run(groups={group: {} for group in ("screen", "run", "settle", "wait", "started")})


def twin(run: Run) -> Run:
    """The same run once more: whatever becomes of the one, the other stays. What nobody changes in place is shared."""
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
        groups={group: {name: calls[name] for name in members} for group, members in run.groups.items()},
        grants=run.grants.copy(),
        grant_uses=run.grant_uses.copy(),
        decided=run.decided.copy(),
        tools=run.tools.copy(),
        replies=run.replies.copy(),
        let=run.let.copy(),
        rejected=run.rejected.copy(),
    )


_SHORT = 4_096


def canonical_of(text: str) -> str:
    """The canonical text of frozen arguments, asked for at each look at a call and remembered where it is short."""
    return _canonical_of(text) if len(text) <= _SHORT else canonical(parse(text or "{}"))


@lru_cache(maxsize=512)
def _canonical_of(text: str) -> str:
    return canonical(parse(text or "{}"))


def call_digest(run: Run, call: Call) -> str:
    """What an approval of this call is bound to."""
    text = call.text
    bound = [run.id, call.id, call.agent, call.proposal.tool, canonical_of(text)]
    if call.preview is not None and call.preview.basis:
        bound.append(canonical(call.preview.basis))
    if call.asks:  # a word on what was asked before is no word on this, though the bytes are the same
        bound.append(str(call.asks))
    if call.renewed:  # nor on the same asking of the same copy, when that is brought back a second time
        bound.append(canonical(call.renewed))
    if call.need is not None:
        bound.append(canonical([call.need.requests, call.need.state, call.rounds]))
    short = call.preview is None and call.need is None and len(text) <= _SHORT
    return _digest_of(*bound) if short else digest(*bound)


@lru_cache(maxsize=128, typed=True)
def _digest_of(*texts: str) -> str:
    """Remember the digest of short texts: every door, the gate and the start ask for it anew."""
    return digest(*texts)


def edit_digest(run: Run, call: Call, args: str, basis: dict[str, str] | None) -> str:
    """What an edited call is bound to from its decision to its start: the very arguments, and what was looked at."""
    return digest(run.id, call.id, call.agent, call.proposal.tool, call.asks, canonical_of(args), basis)


def unknown_below(run: Run, frame_id: str) -> list[Call]:
    """The calls below a frame that have begun and of which nobody knows yet what became of them.

    A nested agent is no such call: it ends with the frame that asked for it.
    """
    begun = [*run.groups["started"].values(), *run.groups["wait"].values()]
    below = [call for call in begun if is_below(call.id, frame_id) and call.id not in run.frames]
    return [call for call in below if call.state in ("started", "in_doubt")]


def told_of_copy(run: Run, which: str) -> bool:
    """Whether a run was told of this restore, and nothing that would be in doubt was said or let run since.

    What was decided anew may be in the next copy, and have run: it is no less in doubt than what was there before.
    """
    groups = run.groups
    may_run = [call for group in ("run", "started") for call in groups[group].values() if call.id not in run.frames]
    unjudged = any(not call.voided for call in groups["screen"].values())
    heard = any(call.votes for call in groups["wait"].values())
    return run.restored == which and not (may_run or unjudged or heard)


def ran_out(run: Run, call: Call) -> bool:
    """Whether a request's time is up, though nobody may have said so yet."""
    return call.expires_at is not None and run.now > call.expires_at


def stale(run: Run, call: Call) -> bool:
    """Whether an approval was not executed in its time."""
    limit = call.terms.execute_by_ms if call.terms is not None else None
    decision = let_by(call)
    return limit is not None and decision is not None and run.now > decision.at + limit


def let_by(call: Call) -> ev.Decision | None:
    """Return the decision that lets a call run. What its tool's check finds in a doubt decides nothing anew."""
    decision = call.decision
    return call.cleared if decision is not None and decision.via == "probe" else decision


def request_id(run: Run, call_id: str) -> str:
    """The unguessable public name of a call's request."""
    return blake2b(call_id.encode(), key=run.salt.encode(), digest_size=16).hexdigest()
