"""Opsgenie as a channel, by its Alert API.

A request creates an alert, a claim acknowledges it, and its end closes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from .base import Message
from .https import Poster
from .incidents import IncidentChannel, details_of, incident_key, step_of, urgency

_URL = "https://api.opsgenie.com"
_MESSAGE, _DESCRIPTION = 130, 15_000
_PRIORITIES = ("P1", "P2", "P3")
_ACTIONS = {"acknowledge": "acknowledge", "resolve": "close"}


class OpsgenieChannel(IncidentChannel):
    """Sends alerts with the key of an API integration (`api_key`), or of several by names of yours.

    `url` is that of the service region, such as `https://api.eu.opsgenie.com`.
    """

    def __init__(
        self,
        api_key: str | Mapping[str, str],
        *,
        name: str = "opsgenie",
        url: str = _URL,
        source: str = "keyturn",
        loopback: bool = False,
        poster: Poster | None = None,
    ) -> None:
        super().__init__(api_key, name=name, url=url, source=source, loopback=loopback, poster=poster)

    async def send(self, message: Message) -> None:
        path, body = alert(message, self._source)
        headers = {"Content-Type": "application/json", "Authorization": f"GenieKey {self.key_of(message)}"}
        await self._poster.post(self._url + path, msgspec.json.encode(body), headers)


def alert(message: Message, source: str = "keyturn") -> tuple[str, dict[str, Any]]:
    """Return the path and the body of the Alert API's request that a message is.

    >>> from keyturn.channels.base import Recipient
    >>> desk = Recipient(person="", channel="page")
    >>> page = Message(id="m1", topic="request.decided", to=desk, title="approved", request="5e1f")
    >>> alert(page)[0]
    '/v2/alerts/keyturn-5e1f/close?identifierType=alias'
    """
    step, alias = step_of(message), incident_key(message)
    if step != "trigger":
        path = f"/v2/alerts/{quote(alias, safe='')}/{_ACTIONS[step]}?identifierType=alias"
        return path, {"source": source, "note": message.title}
    body: dict[str, Any] = {
        "message": message.title[:_MESSAGE],
        "alias": alias,
        "description": "\n".join([message.title, message.text])[:_DESCRIPTION],
        "details": details_of(message) | ({"link": message.link} if message.link else {}),
        "source": source,
        "priority": _PRIORITIES[urgency(message)],
        "tags": ["keyturn"],
    }
    return "/v2/alerts", body
