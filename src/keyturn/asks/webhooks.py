"""Webhooks for external callers: a caller hears that its request is decided, and fetches the decision itself.

What is posted says which request, and nothing of the decision: whoever forges one wakes a caller that finds nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Any, ClassVar
from uuid import UUID

import msgspec

from ..channels.addresses import check_url
from ..channels.base import CHANNEL_RULES, Channel, ChannelRefused, Message, Recipient, channel_name
from ..channels.https import Poster
from ..channels.webhook import check_secret, signature_headers
from ..core.encodable import timestamp
from ..core.errors import RunMissing, UserError
from ..core.immutable import immutable
from ..core.seal import Ring
from ..core.settable import Sealed
from ..directory.book import Book
from ..directory.instances import instance_id, instance_of, opened_secret
from ..engine.run.log_cache import log_in
from ..support.keys import ring
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


@immutable
class _Caller(Recipient, frozen=True, kw_only=True):
    """Names an account with the webhook that it has now: of another tenant the same name may have another."""

    webhook: CallerWebhook


class CallerWebhooks(Channel, Sealed):
    """Posts to external callers that their requests are decided, at the address of their account.

    It is one of the `channels` of an app, with their retries and dead letters. `allow` are private networks in which
    receivers may be; with `loopback` they may be on this machine, over plain http too: for tests. It posts to the
    accounts that are named here, and to instances of the Agent Approval Protocol, whose receivers were verified.
    """

    every_event: ClassVar[bool] = True
    combine: ClassVar[bool] = False
    sends_topics: ClassVar[frozenset[str]] = frozenset()

    _rules = CHANNEL_RULES

    def __init__(
        self,
        accounts: Mapping[str, CallerWebhook] | None = None,
        *,
        name: str = "callers",
        allow: Sequence[str] = (),
        loopback: bool = False,
        poster: Poster | None = None,
    ) -> None:
        self.name = channel_name(name)
        self.timeout = 15.0
        self._accounts = dict(accounts or {})
        self._poster = poster or Poster(loopback=loopback, allow=_networks(allow))
        for each in self._accounts.values():
            check_url(each.url, loopback=self._poster.loopback)

    async def callers(self, store: Any, run: str, at: int) -> Sequence[Recipient]:
        """Return the account whose request this run is, where it was decided at that time; by AAP, first decided."""
        log = await log_in(store, run)
        try:
            history = history_of(log)
        except (RunMissing, IndexError):  # which was erased
            return ()
        account = history.asked.account
        target = self._accounts.get(account) or await self._instance(store, account)
        if target is None:
            return ()
        first = () if history.first is None else (history.first.recorded,)
        if at not in (first if target.aap else history.decided):
            return ()
        return (_Caller(person=account, channel=self.name, address=target.url, webhook=target),)

    async def _instance(self, store: Any, account: str) -> CallerWebhook | None:
        """Return where an instance hears of its decisions now, with the secret that it shares with its receiver."""
        found = instance_of(await Book(store).read(), account)
        delivery = None if found is None else found.delivery
        keys: Ring = getattr(store, "keys", ring)()
        secret = delivery and opened_secret(keys, account, delivery.registration, delivery.secret)
        if delivery is None or secret is None:  # the key that sealed it was retired: it is to be stated again
            return None
        return CallerWebhook(url=delivery.url, secret=secret_text(secret), aap=True)

    async def verify(self, url: str, secret: str, told: Mapping[str, str]) -> bool:
        """Post a challenge to a receiver that is proposed, and return whether it gives the challenge back.

        Raises `ChannelRefused` for an address to which nothing is posted.
        """
        body = json.dumps(told)
        headers = {"Content-Type": "application/json"} | signature_headers(told["id"], body, secret)
        try:
            status, answer = await self._poster.exchange(url, body.encode(), headers)
            return status == 200 and json.loads(answer) == {"challenge": told["challenge"]}
        except ChannelRefused:
            raise
        except Exception:  # it cannot be reached, or answers what is none
            return False

    async def send(self, message: Message) -> None:
        """Post that a request is decided, signed with the secret of its account."""
        to = message.to
        target = to.webhook if isinstance(to, _Caller) else self._accounts.get(to.person)
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


def secret_text(secret: bytes) -> str:
    """Return a secret in the words of Standard Webhooks.

    >>> secret_text(bytes(32))
    'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='
    """
    return f"whsec_{base64.b64encode(secret).decode()}"


def _networks(given: Sequence[str]) -> tuple[str, ...]:
    try:
        networks = [ip_network(each) for each in given]
    except ValueError as error:
        raise UserError(f"allow= are networks such as '10.0.0.0/8': {error}") from None
    if any(not each.prefixlen for each in networks):
        raise UserError("allow= would let it post to every address")
    return tuple(map(str, networks))
