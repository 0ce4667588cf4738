"""Tell which lines of a log hold what a tool marked as secret, so that an export can withhold them.

A line is withheld whole: its digest stands in the export, so that it is proven and not shown. A line that this version
cannot read is withheld as well, since nobody can say what it holds.
"""

from __future__ import annotations

from typing import Any

from ...core import events as ev
from ...core.codec import decode
from ...core.errors import KeyturnError
from ...core.shown_items import SECRETS, hides, tool_key
from ...directory.events import PasswordSet, read_entry


class SecretLines:
    """Follows the lines of one run.

    >>> SecretLines().holds(b'{"v":2,"at":5,"events":[{"e":"ExpiryNear","call":"r/1.0"}]}')
    False
    >>> SecretLines().holds(b'{"v":99}')
    True
    """

    def __init__(self) -> None:
        self._calls: set[str] = set()
        self._turns: dict[str, int] = {}
        self._known: dict[str, set[str]] = {}
        self._quotable = False  # something secret stands in a conversation that was given
        self._history = False  # it goes on from a conversation that is not in the log

    def holds(self, body: bytes) -> bool:
        """Return whether the next line holds a secret."""
        try:
            step = decode(body)
        except KeyturnError:
            return True
        found = [self._holds(event) for event in step.events]
        return any(found)

    def _holds(self, event: ev.AnyEvent) -> bool:
        if isinstance(event, ev.ReplyRecorded):
            return self._replied(event)
        if isinstance(event, ev.CallVoided):
            self._calls |= {event.call} if event.proposal.secrets else set()
            return event.call in self._calls
        if isinstance(event, ev.VoteCast | ev.CallDecided | ev.DrillEnded):
            return event.decision.call in self._calls and event.decision.args is not None
        if isinstance(event, ev.RunStarted):
            self._known = {name: set(hidden) for name, hidden in event.about.get(SECRETS, {}).items()}
            return self._given(event.input)
        if isinstance(event, ev.InputAdded):
            return self._given(event.items)
        if isinstance(event, ev.FrameOpened | ev.HandedOff | ev.HistoryCompacted):  # it may quote earlier arguments
            return self._seen(event)
        if isinstance(event, ev.GuardrailReported):  # so may what it found
            return event.on in self._calls
        if isinstance(event, ev.CallScreened | ev.CallLost):
            return event.call in self._calls and event.preview is not None
        return isinstance(event, ev.CallNeeds | ev.GrantGiven | ev.GrantBorrowed) and self._of_call(event)

    def _of_call(self, event: ev.CallNeeds | ev.GrantGiven | ev.GrantBorrowed) -> bool:
        """Return whether what a tool asks, or what a grant covers, may name a secret."""
        return event.call in self._calls if isinstance(event, ev.CallNeeds) else bool(self._calls)

    def _given(self, given: str | list[Any]) -> bool:
        """Return whether something of a conversation is secret; the tools of calls that are not known may say so."""
        found = not isinstance(given, str) and hides(given, self._known)
        self._quotable = self._quotable or found
        return found

    def _seen(self, event: ev.FrameOpened | ev.HandedOff | ev.HistoryCompacted) -> bool:
        if isinstance(event, ev.FrameOpened):
            self._history = self._history or event.prefix is not None
            if event.frame == ev.ROOT:  # it quotes nothing yet
                return self._given(event.items)
        given = self._given(event.items if isinstance(event, ev.FrameOpened) else event.view or [])
        earlier = self._history and any(self._known.values())
        return given or earlier or self._quotable or bool(self._calls)

    def _replied(self, event: ev.ReplyRecorded) -> bool:
        turn = self._turns[event.frame] = self._turns.get(event.frame, 0) + 1
        made = [f"{event.frame}/{turn}.{place}" for place, each in enumerate(event.proposals) if each.secrets]
        self._calls |= set(made)
        for each in event.proposals:
            named = {each.name, tool_key(event.output[each.item])} if each.item < len(event.output) else {each.name}
            for name in named:
                self._known.setdefault(name, set()).update(each.secrets)
        return bool(made) or self._ran(event)

    def _ran(self, event: ev.ReplyRecorded) -> bool:
        """Return whether a reply holds a secret in what its provider ran."""
        found = hides(event.output, self._known, others=True)
        self._quotable = self._quotable or found
        return found


class PasswordLines:
    """Tells which lines of a directory hold the hash of a password, which nobody is given to guess at.

    >>> PasswordLines().holds(b'{"at":5,"by":{"id":"ada"},"events":[],"v":1}')
    False
    """

    def holds(self, body: bytes) -> bool:
        """Return whether a line holds a hash; one that cannot be read may."""
        try:
            entry = read_entry(body)
        except ValueError:
            return True
        return any(isinstance(event, PasswordSet) and event.hash for event in entry.events)
