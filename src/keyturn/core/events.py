"""The events of a run: past tense, frozen, one struct each.

An event says what happened, to which frame or call, with the data needed to fold it and nothing that can be derived. A
step is the events of one commit: it is one line of the log, so a log can never be cut inside a step. A retired version
of an event gets one function in `upcasts.py`. Frames and calls are named by where they are: see `call_ids.py`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .approval import Approval
from .beside_events import ApprovalWithdrawn as ApprovalWithdrawn
from .beside_events import CallHeld as CallHeld
from .beside_events import CallLooked as CallLooked
from .beside_events import CallMarked as CallMarked
from .beside_events import DrillEnded as DrillEnded
from .beside_events import ReviewAsked as ReviewAsked
from .beside_events import ReviewGiven as ReviewGiven
from .beside_events import VoteWithdrawn as VoteWithdrawn
from .call_ids import ROOT as ROOT
from .items import Item
from .people import Decider
from .policy import Action, Verdict
from .preview import Preview
from .records import Decision as Decision
from .records import GrantTerms as GrantTerms
from .records import Proposal as Proposal
from .records import Report as Report
from .records import Wants as Wants
from .records import Watch as Watch
from .shared_events import GrantBorrowed as GrantBorrowed
from .shared_events import GrantLent as GrantLent
from .shared_events import GrantRevoked as GrantRevoked
from .shared_events import QuotaClosed as QuotaClosed
from .shared_events import QuotaReturned as QuotaReturned
from .shared_events import QuotaTaken as QuotaTaken
from .shared_events import RunForked as RunForked
from .shared_events import RunQueued as RunQueued
from .shared_events import RunRestored as RunRestored
from .upcasts import VERSION
from .usage import NOTHING, Counts

Guarded = Literal["", "before", "beside"]
_VERSION = int(VERSION)
Again = Literal["ask_again", "escalate", "restored", "forked", "terms", "step"]


class Event(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="e", gc=False):
    """The base of the events of a run; those of `beside_events.py` are tagged alike."""


class RunStarted(Event, frozen=True):
    """A run began, for `requester` if that is known.

    `salt` keys its request ids, `about` is what its caller said. `drill` makes it a drill, of which nothing ever runs:
    it is when it ends quietly, in milliseconds, where nobody answers it. `copied_from` is the run whose lines these are
    up to the first `RunForked`: what was decided in them is bound to that run, and to no other.
    """

    run: str
    salt: str
    input: str | list[Any]
    about: dict[str, Any] = {}
    requester: str | None = None
    drill: int | None = None
    copied_from: str = ""


class RunResumed(Event, frozen=True):
    """Somebody took the run up again, perhaps with other limits; `limits` are all of those on its usage.

    `max_turns` is the new limit if there is one, and `unlimited` says that there is none any more. `about` holds what
    its caller says otherwise than before. `decider` is the person who resumed it, where one did.
    """

    max_turns: int | None = None
    unlimited: bool = False
    limits: dict[str, Any] | None = None
    about: dict[str, Any] = {}
    decider: Decider | None = None
    once: str = ""  # as of `InputAdded`


class ContextSaved(Event, frozen=True):
    """The caller's context as it was at a pause."""

    context: Any


class FrameOpened(Event, frozen=True):
    """An agent began to work: the root, or a nested agent on behalf of the call of the same name.

    `items` are the items it starts with, an integer standing for an item of the session's history.
    `prefix` is the content address of that history. `guarded` says that input guardrails report "before" the
    first model call or "beside" it; no tool runs until they have. With `barrier=False` the model goes on talking while
    calls are open, and reads each result when it is there: nobody asks it, it speaks by itself.
    """

    frame: str
    agent: str
    items: list[Item | int]
    max_turns: int | None = None
    guarded: Guarded = ""
    prefix: str | None = None
    written: int = 0
    response_id: str | None = None
    barrier: bool = True


class InputAdded(Event, frozen=True):
    """A message was added; it is read after the results of the calls that are open, at the next model call."""

    frame: str
    items: list[Item]
    once: str = ""  # the digest of the name under which it is added once


class ReplyRecorded(Event, frozen=True):
    """The model answered, under the name `model`; `tools` holds, by digest, what it was told of tools that may ask."""

    frame: str
    output: list[Item]
    proposals: list[Proposal] = []
    usage: Counts = NOTHING
    response_id: str | None = None
    request_id: str | None = None
    tools: dict[str, Any] = {}
    judged: bool = False
    model: str = ""
    heard: int | None = None  # how many items it knew when it began, if that is not all before its reply


class ReplyRefused(Event, frozen=True):
    """The model answered what no model may: nothing of it was used, and what it used is counted."""

    frame: str
    usage: Counts
    model: str = ""


class CallScreened(Event, frozen=True):
    """A verdict on a call was recorded: allow, ask or deny; it is never asked for again, only made stricter.

    `preview` is what people are shown, of the world as it was then. `quotas` names the logs that count the call as one
    that runs, `watched` those of breakers. `review` is the share of such calls that people look at. `shadow` is what a
    policy in shadow mode would have said. `revision` is the asking that was looked at, with the decision on it; or 0.
    """

    call: str
    action: Action
    reason: str = ""
    by: str = ""
    terms: Approval | None = None
    at: int = 0
    preview: Preview | None = None
    quotas: tuple[str, ...] = ()
    shadow: Verdict | None = None
    review: float = 0.0
    watched: tuple[Watch, ...] = ()
    revision: int = 0


class VoteCast(Event, frozen=True):
    """A vote of a quorum was recorded, or one that was replaced in hand; the votes of who `lapsed` count no more."""

    decision: Decision
    replaced: bool = False
    lapsed: tuple[str, ...] = ()


class CallDecided(Event, frozen=True):
    """A call was decided, without the votes of who `lapsed`: where it may run now, the policy is asked once more."""

    decision: Decision
    lapsed: tuple[str, ...] = ()


class CallAskedAgain(Event, frozen=True):
    """A request started anew, for the reason that `why` names: earlier votes on it no longer apply.

    `terms` are those that apply from now on, where they are others; `nonce` is that of the restore that asked anew.
    """

    call: str
    why: Again
    at: int
    terms: Approval | None = None
    reason: str = ""
    nonce: str = ""


class ExpiryNear(Event, frozen=True):
    """A request is about to expire, and somebody may be told so."""

    call: str


class CallVoided(Event, frozen=True):
    """A call was proposed anew, since what was shown is no longer what would run; it asks again."""

    call: str
    proposal: Proposal
    why: str
    tools: dict[str, Any] = {}
    nonce: str = ""


class CallStarted(Event, frozen=True):
    """A tool is about to be called; until its result the call may be in doubt.

    `by` names the process, as its claim does, if a journal keeps it; or the caller outside that reports by `until`.
    """

    call: str
    by: str = ""
    until: int | None = None


class CallNeeds(Event, frozen=True):
    """A started call asked for answers to `requests` before it can end; `state` is what its tool resumes from.

    `wants` says what for: an "answer" to its tool, which goes on with it; the "result" of a call that is carried out
    elsewhere, so that its tool is not called again; or "approval" of a call that has done nothing yet.
    """

    call: str
    requests: Any
    state: Any = None
    preview: Preview | None = None
    at: int = 0
    wants: Wants = "answer"


class CallFinished(Event, frozen=True):
    """A call got its result for the model.

    `value` is the tool's own value where the item does not hold it.
    """

    call: str
    item: Item
    value: Any = None
    failed: bool = False


class CallLost(Event, frozen=True):
    """A call was lost: it may be started anew (`again`), or is in doubt; `preview` is what a retry would do now."""

    call: str
    why: str
    again: bool = False
    nonce: str = ""
    preview: Preview | None = None


class GrantGiven(Event, frozen=True):
    """Somebody gave a standing decision."""

    grant: GrantTerms


class GrantUsed(Event, frozen=True):
    """A standing decision decided this call."""

    grant: str
    call: str


class HandedOff(Event, frozen=True):
    """Another agent took over in this frame.

    `view` is what it sees, where not everything: ranges and items.
    """

    frame: str
    agent: str
    view: list[list[int] | Item] | None = None


class HistoryCompacted(Event, frozen=True):
    """The older part of a conversation was replaced by a summary: `view` is what the model reads from now on.

    What happened stays in the log; `usage` is what `model` took to summarise it.
    """

    frame: str
    view: list[list[int] | Item]
    usage: Counts
    model: str = ""


class ToolsJudged(Event, frozen=True):
    """The agent judged its tools' results, or its model's answer, as not final, and the model goes on."""

    frame: str


class GuardrailReported(Event, frozen=True):
    """Guardrails reported, on a frame or on a call."""

    on: str
    reports: list[Report]


class FrameClosed(Event, frozen=True):
    """An agent's work ended; the root's end is the run's end.

    `error` says that it failed.
    """

    frame: str
    output: Any = None
    error: str = ""


class SessionWritten(Event, frozen=True):
    """The first `count` items of the frame's tape were written to the session; `prefix` names one that is new."""

    frame: str
    count: int
    prefix: str | None = None


class RunFailed(Event, frozen=True):
    """The run stopped on an error, `traceback` says where, or was set aside since `lost` holders died; it can go on."""

    error: str
    traceback: str = ""
    lost: int = 0


class RunCancelled(Event, frozen=True):
    """Somebody cancelled the run; what was not decided will not run."""

    decider: Decider | None = None
    why: str = ""


AnyEvent = (
    RunStarted
    | RunResumed
    | ContextSaved
    | FrameOpened
    | InputAdded
    | ReplyRecorded
    | ReplyRefused
    | CallScreened
    | VoteCast
    | VoteWithdrawn
    | CallDecided
    | CallAskedAgain
    | CallMarked
    | CallLooked
    | ReviewAsked
    | ReviewGiven
    | DrillEnded
    | ApprovalWithdrawn
    | ExpiryNear
    | CallVoided
    | CallStarted
    | CallHeld
    | CallNeeds
    | CallFinished
    | CallLost
    | GrantGiven
    | GrantUsed
    | GrantLent
    | GrantBorrowed
    | GrantRevoked
    | QuotaTaken
    | QuotaReturned
    | QuotaClosed
    | HandedOff
    | HistoryCompacted
    | ToolsJudged
    | GuardrailReported
    | FrameClosed
    | SessionWritten
    | RunFailed
    | RunCancelled
    | RunRestored
    | RunForked
    | RunQueued
)


class Step(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="v", tag=_VERSION, gc=False
):
    """One commit: its time and its events, one line of the log; `v` is the format version that wrote it.

    Where the run is traced, `spans` holds where: by call the request for it, and by frame "r" the run itself.
    """

    at: int
    events: list[AnyEvent]
    spans: dict[str, str] = {}
