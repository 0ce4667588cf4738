"""The commands that can be given to a run: imperative, one struct each.

A command carries ids and data, never a live object: after a lost race it is decided again against the run as it stands.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .approval import Approval
from .beside_events import Mark, ReviewWord
from .events import Decision, GrantTerms, Guarded, Proposal, Report, Wants, Watch
from .items import Item
from .people import Decider, Proof
from .policy import Verdict
from .preview import Preview
from .usage import Counts


class RunCommand(msgspec.Struct, frozen=True, gc=False):
    """The base of all commands."""


class Start(RunCommand, frozen=True):
    """Begin a run: its input, and its first frame."""

    run: str
    salt: str
    input: str | list[Any]
    about: dict[str, Any]
    agent: str
    items: list[Item | int]
    max_turns: int | None
    guarded: Guarded = ""
    prefix: str | None = None
    response_id: str | None = None
    requester: str | None = None
    barrier: bool = True
    drill: int | None = None


class Queue(RunCommand, frozen=True):
    """Record a run that begins when its turn on its session has come."""

    run: str
    salt: str
    input: str | list[Any]
    about: dict[str, Any]
    agent: str
    max_turns: int | None
    requester: str | None = None


class Begin(RunCommand, frozen=True):
    """Open the first frame of a run whose turn has come."""

    items: list[Item | int]
    guarded: Guarded = ""
    prefix: str | None = None


class OpenFrame(RunCommand, frozen=True):
    """Let a nested agent answer a started call."""

    call: str
    agent: str
    items: list[Item | int]
    max_turns: int | None
    guarded: Guarded = ""
    prefix: str | None = None
    response_id: str | None = None


class Resume(RunCommand, frozen=True):
    """Resume a run; one that was set aside requires a `decider`, and one that is named by `once` is resumed once."""

    max_turns: int | None = None
    unlimited: bool = False
    limits: dict[str, Any] | None = None
    about: dict[str, Any] = {}
    decider: Decider | None = None
    once: str = ""


class SaveContext(RunCommand, frozen=True):
    """Record the caller's context."""

    context: Any


class AddInput(RunCommand, frozen=True):
    """Add a message, to be read at the next model call; one that is named by `once` is added once."""

    frame: str
    items: list[Item]
    once: str = ""


class RecordReply(RunCommand, frozen=True):
    """Record a model's whole reply.

    `turn` is how many its frame had when the model was asked. Of a model that talks by itself, `heard` is how many
    items of the conversation it had heard when it began, and `agent` the path of the one whose tools it was read with.
    """

    frame: str
    output: list[Item]
    proposals: list[Proposal]
    usage: Counts
    response_id: str | None = None
    request_id: str | None = None
    tools: dict[str, Any] = {}
    judged: bool = False
    model: str = ""
    turn: int | None = None
    heard: int | None = None
    agent: str | None = None


class RefuseReply(RunCommand, frozen=True):
    """Count what a reply used of which nothing else can be recorded."""

    frame: str
    usage: Counts
    model: str = ""


class Screen(RunCommand, frozen=True):
    """Record the verdict on a call, and what guardrails said where they gave it; the rest is as in `CallScreened`."""

    call: str
    verdict: Verdict
    on_decision: bool = False  # it is the newest policy's word on a decision
    reports: list[Report] = []
    preview: Preview | None = None
    quotas: tuple[str, ...] = ()
    shadow: Verdict | None = None
    watched: tuple[Watch, ...] = ()
    revision: int = 0


class Deliver(RunCommand, frozen=True):
    """Record decisions and standing decisions, all in one step; `replaced` and `lapsed` are as in `VoteCast`."""

    decisions: list[Decision]
    grants: list[GrantTerms] = []
    replaced: list[Decision] = []
    lapsed: tuple[str, ...] = ()


class MarkCall(RunCommand, frozen=True):
    """Mark a request, bound to what was shown, until a time; without one, take the mark off."""

    call: str
    digest: str
    mark: Mark
    decider: Decider
    until: int | None = None
    once: str = ""


class RecordLook(RunCommand, frozen=True):
    """Note that somebody has a request on the screen, bound to what is shown."""

    call: str
    digest: str
    decider: Decider


class GiveReview(RunCommand, frozen=True):
    """Say whether a call was rightly let run, bound to what was shown."""

    call: str
    digest: str
    verdict: ReviewWord
    decider: Decider
    note: str | None = None


class Withdraw(RunCommand, frozen=True):
    """Withdraw one's own vote on an open request, or what lets a call run that has not started."""

    call: str
    decider: Decider
    digest: str | None = None  # of what was shown, where that is known
    note: str | None = None
    once: str = ""
    proof: Proof | None = None  # signs the withdrawal of a signed vote
    vote: str = ""  # the verdict that is meant: the end of a rejection undoes no approval that came first


class Revoke(RunCommand, frozen=True):
    """Revoke a standing decision."""

    grant: str
    decider: Decider | None = None


class LendGrant(RunCommand, frozen=True):
    """Lend a standing decision to a call of another run, for which `reaches` says what holds."""

    grant: str
    reaches: list[str]
    run: str
    call: str


class BorrowGrant(RunCommand, frozen=True):
    """Take over a standing decision that another run, its `home`, lent to a call of this one."""

    grant: GrantTerms
    home: str


class TakeQuota(RunCommand, frozen=True):
    """Count a call of another run, held under the claim of `epoch`, where the sum with `beside` is at most `most`."""

    run: str
    call: str
    of: str
    amount: str
    most: str | None = None
    beside: str = "0"
    epoch: int = 0


class ReturnQuota(RunCommand, frozen=True):
    """Count a call no more that was taken under no later claim; to its own run: record that nothing counts it."""

    run: str
    call: str
    of: str
    epoch: int = 0


class CloseQuota(RunCommand, frozen=True):
    """Count no new calls in this log."""


class StartCall(RunCommand, frozen=True):
    """Record that a tool is about to be called; `tool` is its digest, the rest is as in `CallStarted`."""

    call: str
    tool: str
    reports: list[Report] = []
    by: str = ""
    until: int | None = None


class VoidCall(RunCommand, frozen=True):
    """Propose a call anew on what would run now, or on new `terms`; `preview` is what a retry of one in doubt does."""

    call: str
    proposal: Proposal
    why: str
    tools: dict[str, Any] = {}
    terms: Approval | None = None
    preview: Preview | None = None


class NeedInput(RunCommand, frozen=True):
    """Let a started call wait for answers, a result or an approval; `wants` is that of `CallNeeds`."""

    call: str
    requests: Any
    state: Any = None
    preview: Preview | None = None
    wants: Wants = "answer"


class FinishCall(RunCommand, frozen=True):
    """Record a call's result for the model; `by` is the caller outside that holds the call."""

    call: str
    item: Item
    value: Any = None
    failed: bool = False
    reports: list[Report] = []
    by: str = ""


class LoseCall(RunCommand, frozen=True):
    """Record that a started call will never report; only the holder of the run's lease may."""

    call: str
    why: str
    again: bool = True  # whether a call that can be repeated is started anew at once, with no person asked
    unsent: bool = False  # whether the provider, which was to run it, never began: it may start again
    by: str = ""  # as in `FinishCall`


class HandOff(RunCommand, frozen=True):
    """Finish a call by letting another agent go on in its frame."""

    call: str
    item: Item
    agent: str
    view: list[list[int] | Item] | None = None
    reports: list[Report] = []


class SwitchAgent(RunCommand, frozen=True):
    """Let another agent go on in a frame whose model goes on talking, without a call that hands over."""

    frame: str
    agent: str


class CompactHistory(RunCommand, frozen=True):
    """Replace the older part of a frame's conversation; `seen` is how many items it had when the view was made."""

    frame: str
    view: list[list[int] | Item]
    seen: int
    usage: Counts
    model: str = ""


class GuardFrame(RunCommand, frozen=True):
    """Record what the input guardrails of a frame said; they looked at `seen` items that were added to its input."""

    frame: str
    reports: list[Report]
    seen: int = 0


class JudgeFrame(RunCommand, frozen=True):
    """Record whether a frame has its final answer; `item` is a nested frame's result for its caller.

    `judged` is what guardrails said of that result, as `reports` is of the answer.
    """

    frame: str
    final: bool
    output: Any = None
    item: Item | None = None
    reports: list[Report] = []
    judged: list[Report] = []


class CloseFrame(RunCommand, frozen=True):
    """End a nested frame that failed; `item` is what its caller's model reads."""

    frame: str
    error: str
    item: Item
    judged: list[Report] = []


class CloseRun(RunCommand, frozen=True):
    """End the run with an answer that no model gave: an error handler's."""

    output: Any
    items: list[Item]
    reports: list[Report] = []


class WroteSession(RunCommand, frozen=True):
    """Record how much of a frame's tape its session holds; one that is new has the history `prefix` before it."""

    frame: str
    count: int
    prefix: str | None = None


class Fail(RunCommand, frozen=True):
    """Record that the run stopped on an error, and where it was raised; or that so many holders `lost` it in dying."""

    error: str
    traceback: str = ""
    lost: int = 0


class Cancel(RunCommand, frozen=True):
    """Cancel the run."""

    decider: Decider | None = None
    why: str = ""


class RecordRestore(RunCommand, frozen=True):
    """Record that the run's store was restored from a copy, once for each restore, which `nonce` names."""

    why: str
    nonce: str = ""


class Fork(RunCommand, frozen=True):
    """Begin the run `run` where its log, so far a copy of that of `origin`, ends."""

    run: str
    origin: str
    at: int


class Tick(RunCommand, frozen=True):
    """Let time pass: requests are expired, escalated or asked again."""
