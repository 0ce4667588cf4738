"""The seam to a notification channel: one way to notify a person of a pending request, and what it is given to send.

A channel sends one message and returns, or raises. It decides nothing, keeps nothing and asks no one else: when, to
whom and how often is the dispatcher's affair, and so is what a message says. The text of a message is escaped already;
a channel escapes what its own medium reads besides.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import msgspec

from ..core.errors import KeyturnError, UserError
from ..core.immutable import immutable
from ..core.people import plain_text
from ..core.request import Request
from ..core.settable import WHOLE, Rules, must
from ..core.values import is_positive
from ..support.zones import named_zone

TOPICS = (
    "request.created",
    "request.expiring",
    "request.escalated",
    "request.decided",
    "approval.revoked",
    "request.glass_broken",
    "grant.revoked",
)
#: That an approver claimed a request is heard by channels that say so, whatever a recipient chose: it is about them.
CLAIMED = "request.claimed"
#: That the request of an external caller is decided is heard by that caller alone, over a channel that reaches it.
RESOLVED = "ask.resolved"

_LONGEST_S = 366 * 86_400
_MINUTE = timedelta(minutes=1)
_LAST_MS = 253_402_300_799_999


class ChannelRefused(KeyturnError):
    """Raised by a channel where the message will never be taken: the address is gone, or what was sent is refused.

    It is not tried again by itself, and is kept as a dead letter.

    >>> issubclass(ChannelRefused, KeyturnError)
    True
    """


class ChannelBusy(KeyturnError):
    """Raised by a channel that asks to be left alone for `seconds`; the message is tried again afterwards.

    >>> ChannelBusy("slow down", seconds=30).seconds
    30
    """

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        given: object = seconds
        if not isinstance(given, int | float) or isinstance(given, bool) or not given >= 0:  # which a NaN is not
            raise UserError("seconds= of a ChannelBusy is how long to leave the channel alone: a number, 0 or more")
        self.seconds = seconds


@immutable
class QuietHours(msgspec.Struct, frozen=True):
    """Says when somebody is not told: from `start` to `end` by the clocks of their time `zone`, across midnight too.

    >>> night = QuietHours("22:00", "07:00", "Europe/Berlin")
    >>> night.until(datetime(2026, 7, 1, 21, 30, tzinfo=UTC)).isoformat()
    '2026-07-02T05:00:00+00:00'
    >>> night.until(datetime(2026, 7, 1, 12, 0, tzinfo=UTC)) is None
    True
    """

    start: str
    end: str
    zone: str

    def __post_init__(self) -> None:
        try:
            times = [time.fromisoformat(text) for text in (self.start, self.end)]
        except ValueError:
            raise UserError('quiet hours begin and end at times like "22:00"') from None
        if any(each.tzinfo is not None for each in times) or times[0] == times[1]:
            raise UserError("quiet hours begin and end at two different times, without an offset: their zone says it")
        if named_zone(self.zone) is None:
            raise UserError(f'there is no time zone {self.zone!r}: name one like "Europe/Berlin"')

    def until(self, now: datetime) -> datetime | None:
        """Return when the quiet hours end in which `now` is, later than `now`; None outside of them."""
        zone = ZoneInfo(self.zone)
        local = now.astimezone(zone)
        start = time.fromisoformat(self.start)
        end = time.fromisoformat(self.end)
        wall = local.time()
        inside = start <= wall < end if start < end else wall >= start or wall < end
        if not inside:
            return None
        day = local.date() + timedelta(days=1 if wall >= end else 0)
        # An hour that the clocks show twice ends twice, and one that they skip ends as they are put forward.
        at = datetime.combine(day, end)
        first, last = (at.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        while last < first and last.astimezone(zone).replace(tzinfo=None) < at:
            last += _MINUTE
        return min((each for each in (min(first, last), last) if each > now), default=None)


@immutable
class Recipient(msgspec.Struct, frozen=True, kw_only=True):
    """Names a person and the address by which one channel reaches them, with their wishes.

    `after` delays a notification by so many seconds, and drops it if they viewed the request by then. `digest` combines
    the notifications of so many seconds into one message, `rate` is the most messages an hour, `muted_until` a time in
    milliseconds since 1970. Without `details` a message says only that a request is pending. One that is named
    `otherwise` is a fallback: notified of what no other recipient of the plan can be notified of. With a `zone` a
    message has times of it, with UTC beside them.

    >>> Recipient(person="ada", channel="mail", after=60).digest is None
    True
    """

    person: str
    channel: str
    address: str = ""
    topics: frozenset[str] = frozenset(TOPICS)
    after: float = 0.0
    quiet: QuietHours | None = None
    digest: float | None = None
    rate: int | None = None
    muted_until: int | None = None
    details: bool = True
    otherwise: bool = False
    zone: str = ""

    def __post_init__(self) -> None:
        if not self.channel:
            raise UserError("channel= names the channel by which a recipient is notified")
        for text in (self.person, self.channel):
            plain_text(text, "the person or the channel of a recipient")
        until: object = self.muted_until
        if until is not None and not (isinstance(until, int) and 0 <= until <= _LAST_MS):
            raise UserError("muted_until= is a time in milliseconds since 1970")
        unknown = sorted(frozenset(self.topics) - frozenset(TOPICS))
        if unknown:
            raise UserError(f"topics= has {unknown[0]!r}; there are {', '.join(TOPICS)}")
        if self.zone and named_zone(self.zone) is None:
            raise UserError(f'there is no time zone {self.zone!r}: name one like "Europe/Berlin"')
        for name, value in (("after", self.after), ("digest", self.digest)):
            if value is not None and not 0 <= value <= _LONGEST_S:  # which a NaN is not, either
                raise UserError(f"{name}= is a number of seconds, from 0 to a year")
        if self.rate is not None and self.rate < 1:
            raise UserError("rate= is how many messages an hour, 1 or more; muted_until= and topics= are for none")


@immutable
class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Holds a notification to one recipient: of one event, or of several (`count`) as a digest.

    `id` is the same at each attempt, so that a receiver can drop what it has. `title` is one line and `text` several,
    both escaped; rows of data in `text` begin with a margin that no word of ours has. `request` and `revision` name
    what a decision is about, `digest` is what it is bound to, `verdicts` the words that can be said. `whole` says that
    the text shows all of what would run, at a glance. `facts` are plain data for machines. `about` and `rows` are parts
    of `text`, for a channel that lays them out: labels with their values, and the rows of what would run.

    >>> ada = Recipient(person="ada", channel="mail")
    >>> Message(id="m1", topic="request.created", to=ada, title="desk asks to run pay").count
    1
    """

    id: str
    topic: str
    to: Recipient
    title: str
    text: str = ""
    at: int = 0
    run: str = ""
    request: str = ""
    revision: int = 0
    digest: str = ""
    verdicts: tuple[str, ...] = ()
    whole: bool = False
    link: str = ""
    count: int = 1
    facts: dict[str, Any] = {}
    about: tuple[tuple[str, str], ...] = ()
    rows: tuple[str, ...] = ()


# Who is notified of a request; None stands for what is about no request, such as a grant that was revoked.
Recipients = Callable[[Request | None], Sequence[Recipient] | Awaitable[Sequence[Recipient]]]


#: The rules of a channel's attributes, for those that can be set at any time.
CHANNEL_RULES: Rules = {"timeout": must(is_positive, "a number of seconds greater than 0"), "at_once": WHOLE}


class Channel(abc.ABC):
    """Sends notifications by one way; subclass it, give it a `name` and `send`.

    `timeout` is how many seconds one message may take, `at_once` how many are sent at the same time. A channel with
    `every_event` is also sent what is over by now: it keeps books, where a person wants to know what to do.
    `sends_topics` are the events that it can send at all. One that does not `combine` gets each notice by itself, also
    where a recipient wants a digest: it opens an incident for a request, and closes that one.

    >>> Channel.every_event
    False
    """

    name: str
    timeout: float = 30.0
    at_once: int = 4
    every_event: ClassVar[bool] = False
    combine: ClassVar[bool] = True
    sends_topics: ClassVar[frozenset[str]] = frozenset(TOPICS)

    @abc.abstractmethod
    async def send(self, message: Message) -> None:
        """Send a message; raise `ChannelRefused` if it will never be taken, any other error to be asked again."""

    async def callers(self, store: Any, run: str, at: int) -> Sequence[Recipient]:
        """Return which external callers hear that their request, a run of this store, was decided at that time."""
        return ()

    async def verify(self, url: str, secret: str, told: Mapping[str, str]) -> bool | None:
        """Return whether a receiver that an external caller proposes gives a challenge back.

        None for a channel that posts to none. Raises `ChannelRefused` for an address to which nothing is posted.
        """
        return None

    async def close(self) -> None:
        """Give back what the channel holds, as its app stops; an app that is opened again sends by it again."""


def channel_name(name: str) -> str:
    """Check the name of a channel, by which recipients and stored deliveries refer to it."""
    if not name or not name.isprintable() or not name.isascii() or name != name.strip():
        raise UserError(f"a channel's name is plain text such as 'mail', not {name!r}")
    return name
