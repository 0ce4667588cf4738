"""A run as it stands: its frames, its live calls, its grants.

Data only; `evolve.py` is what changes it. Live calls are kept in groups by what the world owes them and
dropped once their turn is over, so that what is open is what costs.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import replace

from . import events as ev
from .digest import canonical, digest
from .items import Item
from .policy import Approval
from .preview import Preview
from .strict import parse
from .usage import COUNTS

_PATIENT = ("in_doubt", "needs")
_KINDS = {"in_doubt": "in_doubt", "needs": "external"}


class Let(msgspec.Struct, frozen=True, gc=False):
    """A call that was let run, or rejected; or, with a sign of -1, one of which it is known now that it did not run."""

    call: str
    agent: str
    proposal: ev.Proposal
    text: str
    at: int
    sign: int = 1


class Call(msgspec.Struct):
    """One tool call, from proposal to result."""

    id: str
    frame: str
    agent: str
    raw: Item
    proposal: ev.Proposal
    state: str = "proposed"
    reason: str = ""
    by: str = ""
    terms: Approval | None = None
    asked_at: int = 0
    decision: ev.Decision | None = None
    votes: dict[str, ev.Decision] = {}
    recheck: bool = False
    voided: str = ""
    item: Item | None = None
    value: Any = None
    shown: str = ""
    asks: int = 0
    preview: Preview | None = None
    approval: ev.Decision | None = None
    need: ev.CallNeeds | None = None
    supplied: ev.Decision | None = None
    rounds: int = 0
    let: Let | None = None
    begun: bool = False

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
    def kind(self) -> str:
        """What is waited for: approval, an external result, or word of a call in doubt."""
        return _KINDS.get(self.state, "approval")


class Frame(msgspec.Struct):
    """One agent at work: the root, or a nested agent on behalf of a call."""

    id: str
    agent: str
    items: list[Item | int]
    max_turns: int | None
    guarding: str
    prefix: str | None
    written: int
    response_id: str | None
    turn: int = 0
    phase: str = "model"
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


class Run(msgspec.Struct):
    """Everything that is true of a run now."""

    id: str = ""
    salt: str = ""
    status: str = "new"
    seq: int = 0
    now: int = 0
    input: str | list[Any] = ""
    about: dict[str, Any] = {}
    context: Any = None
    root_agent: str = ""
    frames: dict[str, Frame] = {}
    calls: dict[str, Call] = {}
    groups: dict[str, dict[str, Call]] = {}
    grants: dict[str, ev.GrantTerms] = {}
    grant_uses: dict[str, int] = {}
    decided: dict[str, ev.Decision] = {}
    tools: dict[str, Any] = {}
    usage: list[int] = []
    replies: list[tuple[str, list[int]]] = []
    started: int = 0
    let: list[Let] = []
    rejected: list[Let] = []
    limits: dict[str, Any] = {}
    turns: int = 0
    max_turns: int | None = None
    last_agent: str = ""
    response_id: str | None = None
    output: Any = None
    error: str = ""


def new_run() -> Run:
    """A run of which nothing is known yet."""
    return Run(groups={group: {} for group in ("screen", "run", "settle", "wait", "started")}, usage=[0] * COUNTS)


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
        usage=run.usage.copy(),
        replies=run.replies.copy(),
        let=run.let.copy(),
        rejected=run.rejected.copy(),
    )


def call_digest(run: Run, call: Call) -> str:
    """What an approval of this call is bound to."""
    bound = [run.id, call.id, call.agent, call.proposal.tool, canonical(call.params)]
    if call.preview is not None and call.preview.basis:
        bound.append(canonical(call.preview.basis))
    if call.asks:  # a word on what was asked before is no word on this, though the bytes are the same
        bound.append(str(call.asks))
    if call.need is not None:
        bound.append(canonical([call.need.requests, call.need.state, call.rounds]))
    return digest(*bound)


def unknown_below(run: Run, frame_id: str) -> list[Call]:
    """The calls below a frame that have begun and of which nobody knows yet what became of them.

    A nested agent is no such call: it ends with the frame that asked for it.
    """
    begun = [*run.groups["started"].values(), *run.groups["wait"].values()]
    below = [call for call in begun if call.id.startswith(frame_id + "/") and call.id not in run.frames]
    return [call for call in below if call.state in ("started", "in_doubt")]


def request_id(run: Run, call_id: str) -> str:
    """The unguessable public name of a call's request."""
    return blake2b(call_id.encode(), key=run.salt.encode(), digest_size=16).hexdigest()
