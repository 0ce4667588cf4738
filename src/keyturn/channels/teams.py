"""Microsoft Teams as a channel: an Adaptive Card, posted to the webhook of a workflow of a team or a chat.

The card has no button that decides: a webhook cannot say who clicked. It shows what would run as runs of text, in
which Teams reads no Markdown, no links and no mentions, and it opens the request.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.settable import Sealed
from .addresses import check_url
from .base import CHANNEL_RULES, Channel, ChannelRefused, Message, channel_name
from .https import Poster

#: How many bytes a workflow takes, with room for its own.
LARGEST = 24_000
_CARD = "application/vnd.microsoft.card.adaptive"
_CUT = "\\[cut here: open the request to see all of it]"


class TeamsChannel(Channel, Sealed):
    """Posts each message to the recipient's own address, else to `url`: a workflow's "When a webhook is received" URL.

    Everyone who has the URL can post there, so it is a secret. `loopback` lets it post to this machine: for tests.
    """

    _rules = CHANNEL_RULES

    def __init__(self, url: str = "", *, name: str = "teams", loopback: bool = False, poster: Poster | None = None):
        self.name = channel_name(name)
        self.timeout = 15.0
        self._poster = poster or Poster(loopback=loopback)
        self._url = url
        if url:
            check_url(url, loopback=self._poster.loopback)

    async def send(self, message: Message) -> None:
        url = message.to.address or self._url
        if not url:
            raise ChannelRefused("this recipient has no address in Teams: give one, or the channel a url=")
        body = msgspec.json.encode(card(message))
        await self._poster.post(url, body, {"Content-Type": "application/json; charset=utf-8"})


def card(message: Message) -> dict[str, Any]:
    """Return a message as what a workflow posts: one attachment, an Adaptive Card.

    >>> from keyturn.channels.base import Recipient
    >>> ada = Recipient(person="ada", channel="teams")
    >>> made = card(Message(id="m1", topic="request.created", to=ada, title="desk asks to run pay"))
    >>> made["attachments"][0]["content"]["body"][0]["inlines"][0]["text"]
    'desk asks to run pay'
    """
    lines = [_line(f"{label}: {value}") for label, value in message.about]
    rows = message.rows or (() if message.digest else tuple(message.text.split("\n")))
    room = LARGEST - len(msgspec.json.encode([message.title, message.link, lines])) - 1_000
    for row in rows:
        made = _line(row, mono=True)
        room -= len(msgspec.json.encode(made)) + 1
        if room < 0:
            lines.append(_line(_CUT))
            break
        lines.append(made)
    if message.digest:
        lines.append(_line(f"digest {message.digest}", quiet=True))
    content: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": [_line(message.title, large=True), *lines],
        "actions": [{"type": "Action.OpenUrl", "title": "Open request", "url": message.link}] if message.link else [],
    }
    return {"type": "message", "attachments": [{"contentType": _CARD, "contentUrl": None, "content": content}]}


def _line(text: str, *, large: bool = False, mono: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Return one line of text that is shown as it is: Teams reads Markdown in text blocks, and not in runs of text."""
    run: dict[str, Any] = {"type": "TextRun", "text": text or " "}
    run |= {"size": "Large", "weight": "Bolder"} if large else {}
    run |= {"fontType": "Monospace"} if mono else {}
    run |= {"isSubtle": True, "size": "Small"} if quiet else {}
    return {"type": "RichTextBlock", "inlines": [run], "spacing": "None" if mono else "Small"}
