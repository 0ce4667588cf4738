"""Web Push as a channel: "notify this phone", encrypted for one browser and sent through its maker's service.

The push service learns that a notification was sent, and nothing of its content. A message is short: what is pending
and where to open it.
"""

from __future__ import annotations

import base64
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..core.errors import UserError
from ..core.settable import Sealed
from .base import CHANNEL_RULES, Channel, ChannelRefused, Message, channel_name
from .https import Poster

try:
    import pywebpush
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from py_vapid import Vapid02
except ImportError as error:
    raise ImportError("the package pywebpush is needed for web push: pip install 'keyturn[webpush]'") from error

_library: Any = pywebpush  # its types are partly unknown
_vapid: Any = Vapid02

# Every service takes 4,096 bytes, encrypted; so many are for a title and a text, as JSON.
_TITLE, _BODY = 500, 2_000
_DAY = 86_400
_HOURS = 12


class Keys(msgspec.Struct, frozen=True):
    """Holds the keys of a subscription, in base64url as browsers give them."""

    p256dh: str
    auth: str


class Subscription(msgspec.Struct, frozen=True):
    """Holds a browser's subscription: what `PushSubscription.toJSON()` says, which is a recipient's address as JSON.

    >>> msgspec.json.decode(b'{"endpoint": "https://p.example/1", "keys": {"p256dh": "B", "auth": "a"}}',
    ...     type=Subscription).endpoint
    'https://p.example/1'
    """

    endpoint: str
    keys: Keys


class WebPushChannel(Channel, Sealed):
    """Sends to the browser whose subscription, as JSON, is the recipient's address.

    `key` is the private VAPID key, 32 bytes in base64url; `contact` is how a push service reaches whoever runs this
    server: "mailto:..." or "https://...". `loopback` lets it send to this machine: for tests.
    """

    _rules = CHANNEL_RULES

    def __init__(
        self,
        key: str,
        contact: str,
        *,
        name: str = "webpush",
        loopback: bool = False,
        poster: Poster | None = None,
    ) -> None:
        self.name = channel_name(name)
        self.timeout = 15.0
        self._poster = poster or Poster(loopback=loopback)
        if not contact.startswith(("mailto:", "https://")):
            raise UserError('contact= is how a push service reaches you: "mailto:..." or "https://..."')
        try:
            self._vapid: Any = _vapid.from_raw(key.encode())
        except Exception:  # whatever its parts raise, they quote the key
            raise UserError("key= is a private VAPID key: 32 bytes in base64url") from None
        self._contact = contact

    @property
    def browser_key(self) -> str:
        """Return the public key, in base64url, with which a browser subscribes to this channel and to no other."""
        point = self._vapid.public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return base64.urlsafe_b64encode(point).rstrip(b"=").decode()

    async def send(self, message: Message) -> None:
        try:
            to = msgspec.json.decode(message.to.address.encode(), type=Subscription)
            pusher = _library.WebPusher(msgspec.to_builtins(to))
            body: bytes = pusher.encode(_payload(message))["body"]
        except Exception:  # a subscription is a browser's word
            raise ChannelRefused("the address is no subscription of a browser") from None
        parts = urlsplit(to.endpoint)
        ends = int(time.time()) + _HOURS * 3_600
        claims = {"sub": self._contact, "aud": f"{parts.scheme}://{parts.netloc}", "exp": ends}
        headers = {
            **self._vapid.sign(claims),
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(_DAY),
            "Urgency": "high" if message.topic in ("request.expiring", "request.escalated") else "normal",
        }
        await self._poster.post(to.endpoint, body, headers)


def _payload(message: Message) -> bytes:
    said = {
        "id": message.id,
        "topic": message.topic,
        "title": _cut(message.title, _TITLE),
        "body": _cut(message.text, _BODY),
        "request": message.request,
        "digest": message.digest,
        "link": message.link,
        "count": message.count,
    }
    return msgspec.json.encode(said)


def _cut(text: str, most: int) -> str:
    """Return as much of a text as takes so many bytes."""
    left = most
    for at, char in enumerate(text):
        left -= len(msgspec.json.encode(char)) - 2
        if left < 0:
            return text[:at] + "\\[cut]"
    return text
