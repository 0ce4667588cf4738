"""Webhooks for external callers: a caller hears that its request is decided, and fetches the decision itself.

What is posted says which request, and nothing of the decision: whoever forges one wakes a caller that finds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Any, ClassVar
from uuid import NAMESPACE_OID, UUID, uuid5

import msgspec

from ..channels.addresses import check_url
from ..channels.base import CHANNEL_RULES, Channel, ChannelRefused, Message, Recipient, channel_name
from ..channels.https import Poster
from ..channels.webhook import check_secret, signature_headers
from ..core.encodable import timestamp
from ..core.errors import RunMissing, UserError
from ..core.immutable import immutable
from ..core.settable import Sealed
from ..engine.run.log_cache import log_in
from .history import history_of


@immutable
class CallerWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """Says where an account hears of its decisions; `secret` ("whsec_...") signs, or two while it is replaced.

    With `aap` the message is that of the Agent Approval Protocol, as its `Receiver` reads it.

    >>> CallerWebhook(url="https://agent.example/aap", secret="whsec_" + "A" * 43 + "=").aap
    False
    """

    url: str
    secret: str | Sequence[str]
    aap: bool = False

    def __post_init__(self) -> None:
        check_secret(self.secret)

    def __repr__(self) -> str:
        return f"CallerWebhook(url={self.url!r}, secret=..., aap={self.aap})"


class CallerWebhooks(Channel, Sealed):
    """Posts to external callers that their requests are decided, at the address of their account.

    It is one of the `channels` of an app, with their retries and dead letters. `allow` are private networks in which
    receivers may be; with `loopback` they may be on this machine, over plain http too: for tests.
    """

    every_event: ClassVar[bool] = True
    combine: ClassVar[bool] = False
    sends_topics: ClassVar[frozenset[str]] = frozenset()

    _rules = CHANNEL_RULES

    def __init__(
        self,
        accounts: Mapping[str, CallerWebhook],
        *,
        name: str = "callers",
        allow: Sequence[str] = (),
        loopback: bool = False,
        poster: Poster | None = None,
    ) -> None:
        self.name = channel_name(name)
        self.timeout = 15.0
        self._accounts = dict(accounts)
        self._poster = poster or Poster(loopback=loopback, allow=_networks(allow))
        for each in self._accounts.values():
            check_url(each.url, loopback=self._poster.loopback)

    async def callers(self, store: Any, run: str, at: int) -> Sequence[Recipient]:
        """Return the account whose request this run is, where it was decided first at that time."""
        log = await log_in(store, run)
        try:
            history = history_of(log)
        except (RunMissing, IndexError):  # which was erased
            return ()
        target = self._accounts.get(history.asked.account)
        if target is None or history.first is None or history.first.recorded != at:
            return ()
        return (Recipient(person=history.asked.account, channel=self.name, address=target.url),)

    async def send(self, message: Message) -> None:
        """Post that a request is decided, signed with the secret of its account."""
        target = self._accounts.get(message.to.person)
        if target is None:
            raise ChannelRefused("this account has no webhook now")
        id = str(UUID(hex=message.id.removeprefix("msg_")))
        told: dict[str, Any] = {"id": id, "type": "ask.resolved", "account": message.to.person, "ask": message.run}
        if target.aap:
            told = {"id": id, "type": "request.resolved", "instance_id": instance_id(message.to.person)}
            told["request_id"] = str(UUID(hex=message.run))
        body = json.dumps(told | {"created_at": timestamp(message.at)})
        headers = {"Content-Type": "application/json"} | signature_headers(id, body, target.secret)
        await self._poster.post(target.url, body.encode(), headers)


def instance_id(account: str) -> str:
    """Return the id under which the Agent Approval Protocol knows an account.

    >>> instance_id("ci")
    '4227570e-f7a4-5f88-8a1c-fdea44930f76'
    """
    return str(uuid5(NAMESPACE_OID, f"keyturn {account}"))


def _networks(given: Sequence[str]) -> tuple[str, ...]:
    try:
        networks = [ip_network(each) for each in given]
    except ValueError as error:
        raise UserError(f"allow= are networks such as '10.0.0.0/8': {error}") from None
    if any(not each.prefixlen for each in networks):
        raise UserError("allow= would let it post to every address")
    return tuple(map(str, networks))
