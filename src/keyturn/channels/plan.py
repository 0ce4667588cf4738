"""The notification channels of an app, the recipients, and how often a delivery is attempted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ..core.errors import UserError
from ..core.immutable import immutable
from ..core.request import Request
from ..journal.rows import Delivery
from ..support.user_code import answer_of
from .base import CLAIMED, RESOLVED, Channel, Recipient, Recipients, channel_name

log = logging.getLogger("keyturn.channels")

# How long it may take to name the recipients, in seconds: one look-up that hangs must not end all deliveries.
_NAMING = 30.0


@immutable
@dataclass(frozen=True, slots=True)
class Attempts:
    """Says how often a message is tried: `most` times, `first` seconds apart, twice as long each time, to `longest`.

    >>> [Attempts(first=1.0, longest=5.0).wait(tried) for tried in (1, 2, 3, 4, 5_000)]
    [1.0, 2.0, 4.0, 5.0, 5.0]
    """

    most: int = 12
    first: float = 2.0
    longest: float = 3600.0

    def __post_init__(self) -> None:
        if self.most < 1 or not 0 < self.first <= self.longest:
            raise UserError("attempts are 1 or more, and first= is more than 0 seconds and no more than longest=")

    def wait(self, tried: int) -> float:
        """Return how many seconds after an attempt the next one is made, before chance moves it."""
        return min(self.longest, self.first * 2.0 ** min(max(tried, 1) - 1, 62))


@immutable
@dataclass(frozen=True)
class ChannelPlan:
    """Holds the channels of an app and their recipients: `App(channels=ChannelPlan(...))`.

    `recipients` returns who is notified of a request; without it each channel sends once, to its own address. `link` is
    where a request is opened, with `{request}` in place of its id. Events of requests that are closed, and older than
    `forget` seconds, are not sent.

    >>> from keyturn.channels.terminal import TerminalChannel
    >>> [who.channel for who in ChannelPlan([TerminalChannel()]).everybody(None)]
    ['terminal']
    """

    channels: Sequence[Channel]
    recipients: Recipients | None = None
    link: str | None = None
    attempts: Attempts = field(default_factory=Attempts)
    forget: float = 86_400.0
    _warned: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]], init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for channel in self.channels:
            if not isinstance(channel, Channel):
                raise UserError(f"channels= is a list of Channel objects, not of {type(channel).__name__}")
        names = [channel_name(channel.name) for channel in self.channels]
        if len({*names}) != len(names):
            raise UserError("two channels have the same name; give one another name=")
        if self.recipients is not None and not callable(self.recipients):
            raise UserError("recipients= is a function of a request that returns a list of Recipient")
        if self.link is not None and not _is_link(self.link):
            raise UserError('link= is where a request is opened, such as "https://inbox.example/requests/{request}"')

    @classmethod
    def of(cls, given: ChannelPlan | Sequence[Channel]) -> ChannelPlan:
        """Return a plan, made of a list of channels where that is all there is."""
        if isinstance(given, ChannelPlan):
            return given
        if isinstance(given, Channel) or not isinstance(given, Sequence):
            raise UserError("channels= is a list of channels, or a ChannelPlan")
        return cls(given)

    @property
    def by_name(self) -> dict[str, Channel]:
        """Return the channels by their names."""
        return {channel.name: channel for channel in self.channels}

    def hears(self, who: Recipient, topic: str) -> bool:
        """Return whether a recipient is notified of a topic: they want it, and their channel can send it."""
        return (topic in who.topics or topic == CLAIMED) and topic in self.by_name[who.channel].sends_topics

    def everybody(self, _request: Request | None) -> list[Recipient]:
        """Return one recipient for each channel, at the channel's own address."""
        return [Recipient(person="", channel=channel.name) for channel in self.channels]

    async def who(self, request: Request | None) -> dict[tuple[str, str], Recipient]:
        """Return who is notified of a request, by channel and person; of two that are the same, the first.

        Those who are named `otherwise` are among them where no one else can be notified by a channel of this plan.
        """
        async with asyncio.timeout(_NAMING):
            named = await answer_of(self.recipients or self.everybody, request)
        known, found = self.by_name, list[Recipient]()
        for each in named:
            if not isinstance(each, Recipient):
                raise UserError(f"recipients= returns a list of Recipient, not of {type(each).__name__}")
            if each.channel in known:
                found.append(each)
            else:
                self._warn("recipients are named on the channel %r, and this plan has none of that name", each.channel)
        told = dict[tuple[str, str], Recipient]()
        for each in [each for each in found if not each.otherwise] or found:
            first = told.setdefault((each.channel, each.person), each)
            if first.address != each.address:
                said = "recipients= names %r at two addresses of the channel %r, and the second is not notified"
                self._warn(said + ": give it a person= of its own", each.person, each.channel)
        return told

    async def who_hears(self, store: Any, note: Delivery, request: Request | None) -> dict[tuple[str, str], Recipient]:
        """Return who is notified of a notice, by channel and person: people, or the caller whom it concerns."""
        if note.topic == RESOLVED:
            at = int(note.about.get("at", 0))
            told = [each for channel in self.channels for each in await channel.callers(store, note.run, at)]
            return {(each.channel, each.person): each for each in told}
        return {key: each for key, each in (await self.who(request)).items() if self.hears(each, note.topic)}

    def _warn(self, said: str, *names: str) -> None:
        """Log what is wrong with the recipients, once."""
        if (said, *names) not in self._warned:
            self._warned.add((said, *names))
            log.warning(said, *names)


def _is_link(link: str) -> bool:
    parts = urlsplit(link)
    return parts.scheme in ("https", "http") and bool(parts.netloc) and link.isprintable() and " " not in link
