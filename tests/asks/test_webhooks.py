"""An external caller hears that its request is decided, once, and fetches the decision itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from keyturn import App, Approval, Ask, ExternalAgent, UserError
from keyturn.asks.webhooks import CallerWebhook, CallerWebhooks
from keyturn.channels.addresses import check_addresses, target_of
from keyturn.channels.base import ChannelRefused, Message, Recipient
from keyturn.channels.https import Poster
from keyturn.journal.rows import DeliveryQuery
from keyturn.policies.rules import Policy, allow
from keyturn.testing import check
from keyturn.testing.loopback.receiver import ReceiverServer
from tests.asks.test_asks import pending
from tests.waiting import until

receiving = pytest.importorskip("agentapprovalprotocol.receiver", reason="needs agentapprovalprotocol")

SECRET = receiving.new_secret()


@asynccontextmanager
async def office(receiver: ReceiverServer, policy: Any = None) -> AsyncGenerator[App]:
    """An app whose accounts "ci", and "aap" in the form of that protocol, have webhooks; "cd" has none."""
    url = f"{receiver.url}/hook"
    accounts = {name: CallerWebhook(url=url, secret=SECRET, aap=name == "aap") for name in ("ci", "aap")}
    channels = [CallerWebhooks(accounts, loopback=True)]
    async with App([ExternalAgent()], "memory://", policy, channels=channels) as app:
        yield app
        assert (await check(app.journal)).ok


async def ask(app: App, key: str, account: str = "ci", **more: Any) -> Any:
    return await app.asks.ask(Ask(key=key, tool="pay", **more), account=account)


async def sent(app: App) -> bool:
    """Whether all is delivered that there is to deliver."""
    return not await app.journal.outbox() and not await app.journal.deliveries(DeliveryQuery())


def told(receiver: ReceiverServer) -> list[Any]:
    """What was told, each verified as the protocol's own receiver does."""
    return [receiving.verify(SECRET, dict(each.headers), each.body) for each in receiver.taken]


async def test_every_end_of_a_request_is_told_once_to_the_account_that_asked() -> None:
    policy = Policy(allow(tool="read"))
    async with ReceiverServer() as receiver, office(receiver, policy) as app:
        approved = await ask(app, "approved", terms=Approval(execute_by=0.2), ask_again=False)
        await app.inbox.approve(await pending(app, approved), by="ben")
        rejected = await ask(app, "rejected")
        await app.inbox.reject(await pending(app, rejected), by="ben")
        withdrawn = await ask(app, "withdrawn")
        await app.asks.withdraw((await pending(app, withdrawn)).run, account="ci")
        expired = await ask(app, "expired", terms=Approval(expires=0.2))
        allowed = await app.asks.ask(Ask(key="allowed", tool="read"), account="ci")
        other = await ask(app, "other", "cd")
        await app.inbox.reject(await pending(app, other), by="ben")
        ends = [each.id for each in (approved, rejected, withdrawn, expired, allowed)]
        await until(lambda: len(receiver.taken) >= len(ends))
        await until(lambda: sent(app))
        await until(lambda: _ended(app, approved.id))  # which is not told anew: it was decided before
        await until(lambda: sent(app))
        messages = told(receiver)
        assert sorted(each["ask"] for each in messages) == sorted(ends)
        assert {(each["type"], each["account"]) for each in messages} == {("ask.resolved", "ci")}
        assert len({each["id"] for each in messages}) == len(ends)


async def _ended(app: App, id: str) -> bool:
    return (await app.asks.get(id, account="ci")).ended


async def test_an_approval_that_can_be_undone_is_told_once_it_stands() -> None:
    async with ReceiverServer() as receiver, office(receiver) as app:
        asked = await ask(app, "o1", "aap")
        row = await app.inbox.approve(await pending(app, asked), by="ben", undo="60s")
        await app.inbox.withdraw(row, by="ben")
        row = await pending(app, asked)
        assert not receiver.taken
        await app.inbox.approve(row, by="ben", undo="200ms")
        await until(lambda: receiver.taken)
        [message] = told(receiver)
        assert (message["type"], message["request_id"].replace("-", "")) == ("request.resolved", asked.id)
        assert (await app.asks.get(asked.id, account="aap")).status == "approved"
        theirs = receiving.Receiver(secret=SECRET, resumers={}, client=None, instance_id=message["instance_id"])
        [request] = receiver.taken
        for body, status in ((request.body, 204), (request.body.replace(b"resolved", b"Resolved"), 401)):
            assert (await theirs.handle(dict(request.headers), body))[0] == status


async def test_a_caller_hears_of_each_decision_where_people_were_asked_again() -> None:
    async with ReceiverServer() as receiver, office(receiver) as app:
        for account, times in (("ci", 2), ("aap", 1)):  # whose protocol has one outcome for each request
            asked = await ask(app, "lapses", account, terms=Approval(execute_by=0.2))
            await app.inbox.approve(await pending(app, asked), by="ben")
            await until(lambda: receiver.taken)
            row = await until(lambda asked=asked: _asked_again(app, asked))
            await app.inbox.reject(row, by="ben")
            await until(lambda: sent(app))
            assert len(told(receiver)) == times
            receiver.taken.clear()


async def _asked_again(app: App, asked: Any) -> Any:
    rows = await app.inbox.list(run=asked.id)
    return rows[0] if rows and rows[0].request.revision > 1 else None


async def test_a_receiver_is_at_no_private_address_unless_its_network_is_allowed() -> None:
    async def private(_host: str, _port: int) -> list[str]:
        return ["10.1.2.3"]

    for url in ("http://agent.example/", "https://u:p@agent.example/", "https://agent.example/#x", "ftp://x/"):
        with pytest.raises(UserError):
            CallerWebhooks({"ci": CallerWebhook(url=url, secret=SECRET)})
    for wrong in ("0.0.0.0/0", "::/0", "ten"):
        with pytest.raises(UserError):
            CallerWebhooks({}, allow=[wrong])
    with pytest.raises(UserError):
        CallerWebhook(url="https://agent.example/", secret="whsec_short")
    webhook = CallerWebhook(url="https://agent.example/", secret=SECRET)
    channel = CallerWebhooks({"ci": webhook}, poster=Poster(resolver=private))
    to = Recipient(person="ci", channel="callers")
    with pytest.raises(ChannelRefused, match="not on the public internet"):
        await channel.send(Message(id=f"msg_{'0' * 32}", topic="ask.resolved", to=to, title="", run="0" * 32))
    target = target_of("https://agent.example/")
    check_addresses(target, ["10.1.2.3"], allow=["10.0.0.0/8"])
    for address in ("169.254.169.254", "127.0.0.1", "::1", "::ffff:10.1.2.3", "192.168.0.1"):
        with pytest.raises(ChannelRefused):
            check_addresses(target, ["10.1.2.3", address], allow=["10.0.0.0/8"])
    assert SECRET not in repr(webhook)
