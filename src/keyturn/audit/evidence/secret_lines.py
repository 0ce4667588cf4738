"""Tell which lines of a log hold what a tool marked as secret, so that an export can withhold them.

A line is withheld whole: its digest stands in the export, so that it is proven and not shown. A line that this version
cannot read is withheld as well, since nobody can say what it holds.
"""

from __future__ import annotations

from ...core import events as ev
from ...core.codec import decode
from ...core.errors import KeyturnError
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
        if isinstance(event, ev.FrameOpened | ev.HandedOff | ev.HistoryCompacted):  # it may quote earlier arguments
            return bool(self._calls)
        if isinstance(event, ev.CallScreened | ev.CallLost):
            return event.call in self._calls and event.preview is not None
        return isinstance(event, ev.CallNeeds | ev.GrantGiven | ev.GrantBorrowed) and self._of_call(event)

    def _of_call(self, event: ev.CallNeeds | ev.GrantGiven | ev.GrantBorrowed) -> bool:
        """Return whether what a tool asks, or what a grant covers, may name a secret."""
        return event.call in self._calls if isinstance(event, ev.CallNeeds) else bool(self._calls)

    def _replied(self, event: ev.ReplyRecorded) -> bool:
        turn = self._turns[event.frame] = self._turns.get(event.frame, 0) + 1
        made = [f"{event.frame}/{turn}.{place}" for place, each in enumerate(event.proposals) if each.secrets]
        self._calls |= set(made)
        return bool(made)


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
