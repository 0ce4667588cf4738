"""Follow what was proposed, voted and decided of each call of a log, so that every view words the next event alike.

A view reads a log event by event and asks here what an event means: whether a verdict is the policy's recheck of a
decision, what the arguments were before an edit, and how many votes there are now.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from ..core import events as ev
from ..core.approval import Approval
from ..core.call_ids import call_id
from ..core.errors import BadJson
from ..core.preview import redact
from ..core.strict import parse
from ..render.verdicts import vote_words


class EditedArguments(NamedTuple):
    """Holds the arguments before an edit and after it, as JSON texts without secrets, and who made it."""

    before: str
    after: str
    by: str = ""


#: Why a call asks anew from the first step of its approval chain.
_FROM_FIRST = ("restored", "forked", "terms")


class _Call:
    """Tracks one call: what was proposed, its terms and votes, and whether it was decided."""

    def __init__(self, text: str, proposal: ev.Proposal) -> None:
        self.asked = text  # in the order in which the model wrote the arguments
        self.text = text if proposal.args is None else proposal.args
        self.secrets: Collection[str] = proposal.secrets
        self.name = proposal.name
        self.decided = False
        self.edited = False
        self.terms: Approval | None = None
        self.stated: Approval | None = None
        self.votes: dict[str, str] = {}


class CallHistory:
    """Reads the events of one run in their order; each event is asked about before the next is read."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._turns: dict[str, int] = {}
        self._rechecks = False

    def read(self, event: ev.AnyEvent) -> None:
        """Take in what an event says of calls."""
        if isinstance(event, ev.FrameOpened):
            self._turns[event.frame] = 0
        elif isinstance(event, ev.ReplyRecorded):
            self._replied(event)
        elif isinstance(event, ev.CallDecided | ev.VoteCast):
            self._voted(event)
        elif isinstance(event, ev.VoteWithdrawn):
            self._withdrawn(event.decision)
        elif isinstance(event, ev.CallScreened | ev.CallVoided | ev.CallAskedAgain | ev.CallNeeds | ev.CallLost):
            call = self._calls.get(event.call)
            if call is not None:
                self._moved(call, event)

    def _replied(self, event: ev.ReplyRecorded) -> None:
        turn = self._turns[event.frame] = self._turns.get(event.frame, 0) + 1
        for place, proposal in enumerate(event.proposals):
            raw: Any = event.output[proposal.item] if 0 <= proposal.item < len(event.output) else {}
            given: Any = raw.get("arguments", "")
            self._calls[call_id(event.frame, turn, place)] = _Call(given if isinstance(given, str) else "", proposal)

    def _voted(self, event: ev.CallDecided | ev.VoteCast) -> None:
        made = event.decision
        call = self._calls.get(made.call)
        if call is None:
            return
        for name in event.lapsed:
            call.votes.pop(name, None)
        if isinstance(event, ev.CallDecided):
            call.decided = True
            call.edited = call.edited or event.decision.args is not None
        elif not event.replaced:
            call.votes[made.by or ""] = made.verdict

    def _withdrawn(self, made: ev.Decision) -> None:
        call = self._calls.get(made.call)
        if call is not None:
            call.votes.pop(made.by or "", None)

    def _moved(self, call: _Call, event: object) -> None:
        self._rechecks = isinstance(event, ev.CallScreened) and call.decided
        if isinstance(event, ev.CallScreened):
            if not call.decided:
                call.terms = call.stated = event.terms
            return
        call.votes = {}
        if isinstance(event, ev.CallVoided):
            call.text = call.text if event.proposal.args is None else event.proposal.args
        if isinstance(event, ev.CallLost) or (isinstance(event, ev.CallAskedAgain) and event.why in _FROM_FIRST):
            call.terms = call.stated
        if isinstance(event, ev.CallAskedAgain) and event.terms is not None:
            if event.why == "terms" or (event.why == "escalate" and call.terms == call.stated):
                call.stated = event.terms
            call.terms = event.terms
        call.decided = call.decided and not isinstance(event, ev.CallVoided | ev.CallNeeds)

    def is_recheck(self, event: ev.CallScreened) -> bool:
        """Return whether the verdict that was just read is the policy's recheck of a decision."""
        return self._rechecks and event.call in self._calls

    def name(self, call: str) -> str | None:
        """Return the name of the tool of a call, also once the run forgot the call; None where it is not known."""
        known = self._calls.get(call)
        return None if known is None else known.name

    def step(self, call: str) -> tuple[int, int]:
        """Return which step of a call's approval chain is due, and of how many; (1, 1) where it has no steps."""
        known = self._calls.get(call)
        if known is None or known.stated is None or known.terms is None:
            return 1, 1
        whole = len(known.stated.in_turn)
        return whole - len(known.terms.in_turn) + 1, whole

    def has_votes(self, call: str) -> bool:
        """Return whether others voted before a call was decided."""
        known = self._calls.get(call)
        return known is not None and bool(known.votes)

    def was_edited(self, call: str) -> bool:
        """Return whether a decision changed the arguments of a call."""
        known = self._calls.get(call)
        return known is not None and known.edited

    def edit(self, made: ev.Decision) -> EditedArguments | None:
        """Return what a decision made of the arguments; None where it changed nothing."""
        call = self._calls.get(made.call)
        if call is None or made.args is None:
            return None
        before, after = (_shown(side, call.secrets, like=call.asked) for side in (call.text, made.args))
        return EditedArguments(before, after, made.by or "")

    def vote(self, made: ev.Decision) -> str:
        """Word a vote that was just read: how many of how many there are now."""
        call = self._calls.get(made.call)
        terms = Approval() if call is None or call.terms is None else call.terms
        needed = terms.deny_quorum if made.verdict == "reject" else terms.quorum
        return vote_words(made.verdict, [made.verdict] if call is None else call.votes.values(), needed)


def edited_in(steps: Iterable[ev.Step], call: str) -> EditedArguments | None:
    """Return what the newest decision with other arguments made of those of a call; None where there is none."""
    history = CallHistory()
    found = None
    for step in steps:
        for event in step.events:
            history.read(event)
            if isinstance(event, ev.CallDecided) and event.decision.call == call:
                found = history.edit(event.decision) or found
    return found


def _shown(text: str, secrets: Collection[str], like: str) -> str:
    """Return arguments without secrets; those that another text has too stand in its order."""
    try:
        given, first = parse(text or "{}"), parse(like or "{}")
        if isinstance(given, dict) and isinstance(first, dict):
            given = {name: given[name] for name in (*first, *given) if name in given}
        return json.dumps(redact(given, secrets), ensure_ascii=False)
    except BadJson:
        return "" if secrets else text
