"""Say a message as a step of an incident: what PagerDuty and Opsgenie have in common.

A request opens one incident, under a key of its own; a claim acknowledges it, and its end resolves it. A reminder and
an escalation are further alerts of the same incident.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from ..core.errors import UserError
from ..core.settable import Sealed
from .addresses import check_url
from .base import CHANNEL_RULES, CLAIMED, Channel, ChannelRefused, Message, channel_name
from .https import Poster

Step = Literal["trigger", "acknowledge", "resolve"]

_STEPS: dict[str, Step] = {
    "request.created": "trigger",
    "request.expiring": "trigger",
    "request.escalated": "trigger",
    CLAIMED: "acknowledge",
    "request.decided": "resolve",
}
_URGENT = frozenset({"request.expiring", "request.escalated"})
_NAMED = 255


class IncidentChannel(Channel, Sealed):
    """Opens, acknowledges and resolves incidents of a service that pages; `keys` is one key, or several by names.

    The recipient's address names the key; the first one is for those without an address.
    """

    combine: ClassVar[bool] = False
    sends_topics: ClassVar[frozenset[str]] = frozenset(_STEPS)

    _rules = CHANNEL_RULES

    def __init__(
        self,
        keys: str | Mapping[str, str],
        *,
        name: str,
        url: str,
        source: str = "keyturn",
        loopback: bool = False,
        poster: Poster | None = None,
    ) -> None:
        self.name = channel_name(name)
        self.timeout = 15.0
        self._poster = poster or Poster(loopback=loopback)
        self._keys = {"": keys} if isinstance(keys, str) else dict(keys)
        self._url, self._source = url.rstrip("/"), source
        check_url(url, loopback=self._poster.loopback)
        if not self._keys or not all(map(_is_key, self._keys.values())):
            raise UserError("the key of the service is plain text without spaces, as its integration shows it")

    def key_of(self, message: Message) -> str:
        """Return the key by which a recipient is paged."""
        address = message.to.address
        if not address:
            return next(iter(self._keys.values()))
        if address not in self._keys:
            raise ChannelRefused("this address is none of the names under which this channel has a key")
        return self._keys[address]


def _is_key(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def step_of(message: Message) -> Step:
    """Return which step of its incident a message is.

    >>> from keyturn.channels.base import Recipient
    >>> step_of(Message(id="m1", topic="request.decided", to=Recipient(person="", channel="page"), title="approved"))
    'resolve'
    """
    return _STEPS[message.topic]


def incident_key(message: Message) -> str:
    """Return the key of the incident: the same for all messages of a request, and of no other request."""
    return f"keyturn-{message.request or message.id}"[:_NAMED]


def urgency(message: Message) -> int:
    """Return how urgent a message is: 0 for a call of high risk, 1 near a deadline or past one, else 2."""
    if message.facts.get("risk") == "high":
        return 0
    return 1 if message.topic in _URGENT else 2


def details_of(message: Message) -> dict[str, str]:
    """Return the fields that an incident shows, all of them escaped text."""
    named = {"request": message.request, "run": message.run, "digest": message.digest}
    return {label: value for label, value in {**dict(message.about), **named}.items() if value}
