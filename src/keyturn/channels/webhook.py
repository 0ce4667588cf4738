"""A webhook as a channel: a CloudEvent for a program, signed as Standard Webhooks says, to an address that is safe.

The program verifies it with any library of Standard Webhooks. It is told ids and plain facts, and the same text as
people; what it wants to know besides it asks for under its own name.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from ..core.encodable import moment
from ..core.errors import UserError
from ..core.settable import Sealed
from .addresses import check_url
from .base import CHANNEL_RULES, Channel, ChannelRefused, Message, Recipient, channel_name
from .https import Poster

try:
    from standardwebhooks.webhooks import Webhook
except ImportError as error:
    raise ImportError("the package standardwebhooks signs webhooks: pip install 'keyturn[webhooks]'") from error

Secrets = str | Sequence[str] | Callable[[Recipient], str | Sequence[str]]


class WebhookChannel(Channel, Sealed):
    """Posts each message to `url`, or to the recipient's own address, signed with `secret` ("whsec_...").

    While a secret is replaced give both, the new one first. A function says the secret of a recipient, so that no
    receiver can sign what another trusts. `loopback` lets it post to this machine, over plain http too: for tests.
    """

    every_event: ClassVar[bool] = True

    _rules = CHANNEL_RULES

    def __init__(
        self,
        url: str | None = None,
        *,
        secret: Secrets,
        name: str = "webhook",
        source: str = "keyturn",
        loopback: bool = False,
        poster: Poster | None = None,
    ) -> None:
        self.name = channel_name(name)
        self.timeout = 15.0
        self._poster = poster or Poster(loopback=loopback)
        self._url = url
        self._secret = secret
        self._source = source
        if url is not None:
            check_url(url, loopback=self._poster.loopback)
        if not callable(secret):
            check_secret(secret)

    async def send(self, message: Message) -> None:
        url = message.to.address or self._url
        if not url:
            raise ChannelRefused("this recipient has no address: give one, or the channel a url=")
        body = msgspec.json.encode(envelope(message, self._source)).decode()
        given = self._secret(message.to) if callable(self._secret) else self._secret
        headers = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
        headers |= signature_headers(message.id, body, given)
        await self._poster.post(url, body.encode(), headers)


def signature_headers(id: str, body: str, secret: str | Sequence[str]) -> dict[str, str]:
    """Return the headers by which a receiver verifies a body, as Standard Webhooks says."""
    now = datetime.now(UTC)
    signed = " ".join(signer.sign(id, now, body) for signer in _signers(secret))
    return {"webhook-id": id, "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signed}


def check_secret(secret: str | Sequence[str]) -> None:
    """Refuse what is no secret of Standard Webhooks."""
    _signers(secret)


def envelope(message: Message, source: str = "keyturn") -> dict[str, Any]:
    """Return a message as a CloudEvent 1.0.

    >>> ada = Recipient(person="ada", channel="webhook")
    >>> envelope(Message(id="m1", topic="request.created", to=ada, title="desk asks"))["type"]
    'keyturn.request.created'
    """
    told = {
        "title": message.title,
        "text": message.text,
        "run": message.run,
        "request": message.request,
        "revision": message.revision,
        "digest": message.digest,
        "verdicts": list(message.verdicts),
        "link": message.link,
        "count": message.count,
        "person": message.to.person,
        "facts": message.facts,
    }
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": message.id,
        "source": source,
        "type": f"keyturn.{message.topic}",
        "time": moment(message.at).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": told,
    }
    subject = message.request or str(message.facts.get("subject", ""))
    return event | ({"subject": subject} if subject else {})


def _signers(secret: str | Sequence[str]) -> list[Webhook]:
    given = [secret] if isinstance(secret, str) else list(secret)
    if not given or not all(map(_is_secret, given)):
        raise UserError('secret= is "whsec_" and 24 or more random bytes in base64, or a list of such')
    return [Webhook(each) for each in given]


def _is_secret(text: object) -> bool:
    if not isinstance(text, str) or not text.startswith(_PREFIX):
        return False
    try:
        return len(base64.b64decode(text.removeprefix(_PREFIX), validate=True)) >= _SHORTEST
    except ValueError:
        return False


_PREFIX, _SHORTEST = "whsec_", 24
