"""The records that events carry: a proposal, a report, a decision, a grant."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec.structs import force_setattr

from .approval import Approval
from .items import Item
from .people import Decider, Proof
from .policy import Trouble
from .preview import Preview

Gate = Literal["", "allow", "ask"]
Recover = Literal["ask", "retry", "probe"]
Word = Literal["approve", "edit", "reject", "answer", "ran", "did_not_run", "retry", "expire", "withdraw"]
Via = Literal["person", "grant", "clock", "probe", "on_approval"]

# What a started call may wait for: see `CallNeeds`.
Wants = Literal["answer", "result", "approval"]
WANTS: tuple[Wants, ...] = ("answer", "result", "approval")

# How the word on who decided, or who screened a call, begins if that was a standing decision: its id follows.
BY_GRANT = "grant:"

# The words after which a tool is touched.
RUNS: frozenset[str] = frozenset({"approve", "edit", "retry"})


class Proposal(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Describes one call as the model made it and as it will run, with the facts of its tool.

    `kind` is an open word for the kind of tool, `name` the tool's name, `label` the provider's call id, and `item` the
    call's place in the reply. `tool` is the digest of what the tool is. `args` is the frozen text of what will run,
    absent where it is the model's own text. `refused` is the result of a call that never gets as far as the gate.

    Facts of the tool, as it was when the call was proposed: `gate` is what its own setting says where that needs no
    question, `terms` on which terms it asks, `recover` what an interrupted start means, `last` that it runs after its
    siblings, `risk` what it states of itself, `reads` that it changes nothing,
    `secrets` which arguments are shown to nobody, `key` keys the digests of a call with secrets (those of earlier
    versions have none), `fixed` that nobody may edit the arguments, `elsewhere` that nobody may answer in the tool's
    place, `by_provider` that the provider runs it while it answers the next question to the model and `claimed` that a
    caller outside carries it out, once it has claimed it, `final` that an approval which is not executed in time ends
    the call, where it would ask again otherwise. `server` names what offers the tool, where that offers
    several and others may have one of its name. `edited` says that `args` is what a person made of the call before its
    tool changed. `preview` is what people are shown where that is not the arguments.
    """

    kind: str
    name: str
    label: str
    item: int
    tool: str = ""
    args: str | None = None
    refused: Item | None = None
    gate: Gate = ""
    terms: Approval | None = None
    recover: Recover = "ask"
    last: bool = False
    edited: bool = False
    risk: str | None = None
    secrets: tuple[str, ...] = ()
    fixed: bool = False
    elsewhere: bool = False
    preview: Preview | None = None
    reads: bool = False
    key: str = ""
    by_provider: bool = False
    server: str = ""
    claimed: bool = False
    final: bool = False


class Watch(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Names a count that is told when one of these things becomes of a call."""

    count: str
    per_ms: int
    after: tuple[Trouble, ...]


class Report(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Holds what one guardrail said."""

    name: str
    stage: str
    tripped: bool = False
    info: Any = None


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Records what was decided of one call: bound to the digest of what was shown, single use.

    `decider` is the person, `via` what decided where that was no person: a grant (`grant` is its id), the clock, the
    tool's own probe or its `on_approval`. `at` is when it was said, by the run's time at the latest: it may have been
    delivered later. `args` is the edited text of what will run, `runs` the digest of the call with it, `key` the key of
    that digest where the call has secrets, and `basis` what the editor looked at. `confirms` says that others decide
    after it: it is the requester's confirmation, or meets a step of a chain. `broke_glass` says that somebody decided
    alone whom the terms let do so in an emergency, `asks_back` that a rejection is a question to the agent. `output` is
    a person's own result, `message` the words for the model, `note` the words for the record, `proof` what the person's
    own key made of it, `metadata` what a program tells the tool that runs. `withdrawals` is how many votes on this
    asking had been withdrawn when it was made: a vote from before its own withdrawal is no vote again, though it be
    signed. `undo_ms` is for how long after `at` its call does not start, so that the approval can be withdrawn.
    """

    call: str
    verdict: Word
    digest: str
    at: int = 0
    decider: Decider | None = None
    via: Via = "person"
    grant: str | None = None
    note: str | None = None
    message: str | None = None
    args: str | None = None
    runs: str | None = None
    basis: dict[str, str] | None = None
    output: Any = None
    proof: Proof | None = None
    confirms: bool = False
    broke_glass: bool = False
    asks_back: bool = False
    metadata: Any = None
    key: str = ""
    withdrawals: int = 0
    undo_ms: int = 0

    @property
    def by(self) -> str | None:
        """Return who or what decided, in a word for people to read; nothing is judged by it."""
        if self.decider is not None:
            return self.decider.id
        if self.via == "grant":
            return f"{BY_GRANT}{self.grant}"
        return None if self.via == "person" else self.via


class StepMet(msgspec.Struct, frozen=True, gc=False):
    """Holds how a step of an approval chain was met: on which terms, by whose votes, and what they had looked at.

    `asks` is how often its call had been asked anew by then, to which those votes are bound.
    """

    terms: Approval
    votes: tuple[Decision, ...]
    looks: dict[str, int]
    asks: int


class GrantTerms(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Records a standing decision: which tool of which agent, for which arguments, how long, how often, by whom.

    `review` is the share of its uses that people look at afterwards.
    `reach` names the runs for which it holds beside its own, "" for none: its value is compared and never read. `call`
    is set on what a run borrowed of another: the one call for which it is good. `terms` of a rejection are those of the
    call that it was given with: whoever may decide on them may revoke it.
    """

    id: str
    agent: str
    tool: str
    verdict: Literal["approve", "reject"] = "approve"
    where: dict[str, Any] | None = None
    expires_at: int | None = None
    uses: int | None = None
    message: str | None = None
    decider: Decider | None = None
    reach: str = ""
    call: str | None = None
    review: float = 0.0
    terms: Approval | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "review", float(self.review))  # a line is read back to the byte

    @property
    def by(self) -> str | None:
        """Return who gave it, in a word for people to read."""
        return None if self.decider is None else self.decider.id


def path_of_caller(agent: str, proposal: Proposal) -> str:
    """Return the path by which rules name who calls: of an external caller, below its agent, the tool's server."""
    return f"{agent}/{proposal.server}" if proposal.claimed and proposal.server else agent
