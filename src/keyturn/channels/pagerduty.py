"""PagerDuty as a channel, by Events API v2.

A request triggers an incident, a claim acknowledges it, and its end resolves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..core.encodable import moment
from .base import Message
from .https import Poster
from .incidents import IncidentChannel, details_of, incident_key, step_of, urgency

_URL = "https://events.pagerduty.com"
_SEVERITIES = ("critical", "error", "warning")
_SUMMARY = 1_024


class PagerDutyChannel(IncidentChannel):
    """Sends events with the integration key of a service (`routing_key`), or of several by names of yours.

    `url` is that of the service region, such as `https://events.eu.pagerduty.com`.
    """

    def __init__(
        self,
        routing_key: str | Mapping[str, str],
        *,
        name: str = "pagerduty",
        url: str = _URL,
        source: str = "keyturn",
        loopback: bool = False,
        poster: Poster | None = None,
    ) -> None:
        super().__init__(routing_key, name=name, url=url, source=source, loopback=loopback, poster=poster)

    async def send(self, message: Message) -> None:
        body = msgspec.json.encode(event(message, self.key_of(message), self._source))
        await self._poster.post(f"{self._url}/v2/enqueue", body, {"Content-Type": "application/json"})


def event(message: Message, routing_key: str, source: str = "keyturn") -> dict[str, Any]:
    """Return a message as an event of Events API v2.

    >>> from keyturn.channels.base import Recipient
    >>> desk = Recipient(person="", channel="page")
    >>> page = Message(id="m1", topic="request.created", to=desk, title="desk asks to run pay", request="5e1f")
    >>> event(page, "R0")["event_action"], event(page, "R0")["dedup_key"]
    ('trigger', 'keyturn-5e1f')
    """
    step = step_of(message)
    made: dict[str, Any] = {"routing_key": routing_key, "event_action": step, "dedup_key": incident_key(message)}
    if step != "trigger":
        return made
    payload = {
        "summary": message.title[:_SUMMARY],
        "source": source,
        "severity": _SEVERITIES[urgency(message)],
        "component": str(message.facts.get("agent", "")),
        "class": "approval request",
        "custom_details": details_of(message) | ({"would run": "\n".join(message.rows)} if message.rows else {}),
    }
    payload |= {"timestamp": moment(message.at).isoformat()} if message.at else {}
    links = [{"href": message.link, "text": "Open request"}] if message.link else []
    return made | {"payload": payload, "client": "Keyturn", "links": links}
