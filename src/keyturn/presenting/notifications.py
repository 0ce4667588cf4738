"""Say who was notified of a request, by which channel, when, and whether it was delivered: as the outbox has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..journal.rows import Delivery
from ..render.plural import plural
from .clock import span

#: How many notifications of a request are shown.
SHOWN = 200

_ABOUT = {
    "request.created": "new request",
    "request.expiring": "deadline reminder",
    "request.escalated": "escalation",
    "request.claimed": "claim",
    "request.decided": "decision",
    "approval.revoked": "approval withdrawn",
    "request.glass_broken": "emergency override",
}


class Notification(NamedTuple):
    """Holds one notification of a request: to whom, by which channel, about what, and how far its delivery got.

    `state` is delivered, sending, scheduled, queued, retrying or failed; `at` is when it was delivered, or when the
    next attempt is due; `note` says why, where there is more to say.
    """

    person: str
    channel: str
    about: str
    state: str
    at: int
    note: str = ""

    @property
    def to(self) -> str:
        """Return who is notified and how.

        >>> Notification("gus", "slack", "new request", "delivered", 0).to
        'gus by slack'
        """
        if not self.channel:
            return "recipients not known yet"
        return f"{self.person} by {self.channel}" if self.person else self.channel

    def words(self, now: int) -> str:
        """Return how far it got, in one line.

        >>> Notification("gus", "slack", "new request", "delivered", 0).words(5_000)
        'delivered 5 s ago (new request)'
        """
        when = {"delivered": f" {span(now - self.at)} ago", "scheduled": f", due in {span(self.at - now)}"}
        return f"{self.state}{when.get(self.state, '')} ({self.about})" + (f": {self.note}" if self.note else "")


def delivered_of(notified: Sequence[Notification]) -> str:
    """Return how many notifications were delivered.

    >>> delivered_of([Notification("gus", "slack", "new request", "delivered", 0)])
    '1 of 1 delivered'
    """
    return f"{sum(each.state == 'delivered' for each in notified)} of {len(notified)} delivered"


def undelivered_first(notified: Sequence[Notification], most: int) -> list[Notification]:
    """Return as many notifications as there is room for; where not all fit, those that were not delivered first."""
    fits = len(notified) <= most
    return [*notified] if fits else sorted(notified, key=lambda each: each.state == "delivered")[:most]


def notifications_of(rows: Iterable[Delivery], now: int) -> list[Notification]:
    """Return the notifications of a request, in the order in which they were made."""
    return [_notification(row, now) for row in rows]


def _notification(row: Delivery, now: int) -> Notification:
    about = _ABOUT.get(row.topic, row.topic)
    about = "requested again" if row.topic == "request.created" and "again" in row.about else about
    state, note = _progress(row, now)
    at = row.sent_at if row.state == "sent" else row.due_at
    return Notification(row.person, row.channel, about, state, at, note)


def _next(left: int) -> str:
    return f"next attempt in {span(left)}" if left > 0 else "next attempt now"


def _progress(row: Delivery, now: int) -> tuple[str, str]:
    """Return how far a delivery got, and why where that is not plain."""
    tried = plural(row.attempts, "attempt")
    match row.state:
        case "sent":
            return "delivered", ""
        case "dead":
            return "failed", f"{tried}: {row.error}"
        case "sending":
            return "sending", ""
        case _ if row.attempts:
            return "retrying", f"{tried}: {row.error}; {_next(row.due_at - now)}"
        case _ if row.due_at > now:
            return "scheduled", "not sent if viewed before" if row.delay else ""
        case _:
            return "queued", ""
