"""A gate over HTTP: each client asks as the account of its token, and one that vanishes leaves no request behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest

from keyturn import ExternalAgent
from keyturn.client.sending import ServerError
from keyturn.core.errors import StorageError, UserError
from keyturn.mcp_gate import listening
from keyturn.mcp_gate.holding import Holding
from keyturn.mcp_gate.listening import Callers
from keyturn.mcp_gate.starting import listening_address
from keyturn.support.keys import state_directory
from tests.mcp_gate.shops import Shop, none_pending, text_of
from tests.server.programs import Port
from tests.waiting import until

PROTOCOL = "2025-11-25"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Port(more=[ExternalAgent()]) as port:
        yield Shop(port, tmp_path_factory.mktemp("shop"))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_each_client_asks_as_the_account_of_its_token(shop: Shop, mode: str) -> None:
    people = shop.port.app.people
    async with shop.listening("--ungated", "read_*", "--hold", "0.5") as url, shop.over_http(url, mode) as client:
        assert client.server_info is not None
        assert client.server_info.name == "shop"
        assert [tool.name for tool in (await client.list_tools()).tools] == ["buy", "read_price"]
        assert text_of(await client.call_tool("read_price", {"item": "tea"})) == "3"
        first = await client.call_tool("buy", {"item": "tea", "count": 2})
        assert "Call the same tool" in text_of(first)
        row = await shop.pending()
        name = f"till-{mode}"
        await shop.there(people.add(name, kind="machine", by="ada"))
        other = await shop.there(people.issue_token(name, ["ask"], by="ada"))
        async with shop.over_http(url, mode, other) as second:  # whose call is another account's
            assert "Call the same tool" in text_of(await second.call_tool("buy", {"item": "tea", "count": 2}))
        rows = await shop.there(shop.port.app.inbox.list())
        assert {each.request.requester for each in rows} == {"editor", name}
        for each in rows:
            await shop.there(
                shop.port.app.inbox.approve(each, by="ada")
                if each.id == row.id
                else shop.port.app.inbox.reject(each, by="ada", message="Not you.")
            )

        async def ran() -> bool:
            return not (await client.call_tool("buy", {"item": "tea", "count": 2})).is_error

        await until(ran)
        async with shop.over_http(url, mode, other) as second:
            assert "Not you." in text_of(await second.call_tool("buy", {"item": "tea", "count": 2}))
        assert shop.bought == ["2 tea"]


async def test_only_a_token_that_may_ask_is_admitted(shop: Shop) -> None:
    port = shop.port
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with shop.listening() as url, httpx2.AsyncClient() as http:
        for headers, status in (
            ({}, 401),
            ({"authorization": "Basic kt"}, 401),
            ({"authorization": "Bearer kt_none"}, 401),
            ({"authorization": f"Bearer {port.tokens['only ask']}"}, 403),
            ({"authorization": f"Bearer {port.tokens['bot']}"}, 403),
            ({"authorization": f"Bearer {shop.token}", "host": "evil.example"}, 421),
            ({"authorization": f"Bearer {shop.token}", "origin": "https://evil.example"}, 403),
        ):
            made = await http.post(url, json=body, headers={"accept": "application/json, text/event-stream"} | headers)
            assert made.status_code == status, (headers, made.text)
    for given, secure in (("127.0.0.1", True), ("8322", True), ("0.0.0.0:8322", False)):
        with pytest.raises(UserError):
            listening_address(given, (), secure=secure)
    assert listening_address("0.0.0.0:8322", ("gate.example",), secure=True).url == "https://gate.example:8322"


@asynccontextmanager
async def session(url: str, token: str) -> AsyncGenerator[Any]:
    """Open a session as the protocol of 2025 has it, and send a call whose answer is not read."""
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    who = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    async with httpx2.AsyncClient(headers=headers) as http:
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}
        made = await http.post(url, json=first)
        http.headers |= {"mcp-session-id": made.headers["mcp-session-id"], "mcp-protocol-version": PROTOCOL}
        await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        call = {"name": "buy", "arguments": {"item": "ink"}}
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        async with http.stream("POST", url, json=asked) as answer:
            yield answer


async def test_requests_that_bring_a_new_token_at_the_same_time_are_one_caller_and_a_revoked_one_ends(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = shop.port.app.people
    await shop.there(people.add("stand", kind="machine", by="ada"))
    token = await shop.there(people.issue_token("stand", ["ask"], by="ada"))
    callers = Callers(shop.port.url, lambda _account, keyturn: Holding(keyturn.asks, 30))
    try:
        first, second = await asyncio.gather(callers.caller(token), callers.caller(token))
        assert first is second
        monkeypatch.setattr(listening, "_KNOWN_FOR", 0)
        assert (await callers.caller(token)).holding is first.holding
        for error in (ServerError("nothing answers", None), StorageError("the disk is full")):
            monkeypatch.setattr(first.client.people, "me", partial(away, error))
            with pytest.raises(Exception, match="cannot be reached"):
                await callers.caller(token)
        monkeypatch.undo()
        monkeypatch.setattr(listening, "_KNOWN_FOR", 0)
        assert (await callers.caller(token)).holding is first.holding  # whose calls are held still
        [issued] = [each for each in await shop.there(people.tokens("stand")) if "ask" in each.scopes]
        await shop.there(people.revoke_token(issued.id, by="ada"))
        with pytest.raises(Exception, match="missing or invalid"):
            await callers.caller(token)
    finally:
        await callers.close()


async def away(error: Exception) -> Any:
    """Answer as a server that cannot say whose token it is."""
    raise error


async def test_a_client_that_vanishes_withdraws_its_request(shop: Shop) -> None:
    async with shop.listening() as url:
        async with session(url, shop.token):
            row = await shop.pending()
        await until(lambda: none_pending(shop))
        assert (await shop.there(shop.port.app.get(row.run))).status == "cancelled"
        async with shop.over_http(url) as client:
            buying = asyncio.ensure_future(client.call_tool("buy", {"item": "ink"}))
            await shop.pending()
            buying.cancel()
            await until(lambda: none_pending(shop))
        assert shop.bought == []


async def test_a_client_that_gives_up_takes_no_request_from_another_that_waits_for_it(shop: Shop) -> None:
    people = shop.port.app.people
    second = await shop.there(people.issue_token("editor", ["ask"], by="ada"))
    call, others = ("buy", {"item": "oak"}), set(waits())  # of gates that were stopped
    async with shop.listening() as url, shop.over_http(url) as first:
        buying = asyncio.ensure_future(first.call_tool(*call))
        row = await shop.pending()
        async with shop.over_http(url, "auto", second) as other:  # each token holds by itself, as processes do
            joined = asyncio.ensure_future(other.call_tool(*call))
            await until(lambda: [waits()[id] for id in waits().keys() - others] == [2])
            joined.cancel()
            await until(lambda: [waits()[id] for id in waits().keys() - others] == [1])
        await shop.there(shop.port.app.inbox.approve(row, by="ada"))
        assert text_of(await buying) == "bought 1 oak"
        assert shop.bought == ["1 oak"]


def waits() -> dict[str, int]:
    """Return for how many calls of gates each request is open."""
    files = (state_directory() / "gate").glob("*.json")
    asks = [ask for file in files for ask in json.loads(file.read_text()).get("asks", {}).values()]
    return {ask["id"]: len([until for until in ask.get("waits", {}).values() if until]) for ask in asks}


async def test_a_gate_that_is_stopped_has_its_held_calls_repeated_at_the_next_one(shop: Shop) -> None:
    async with shop.listening() as url:
        client = shop.over_http(url)
        buying = asyncio.ensure_future((await client.__aenter__()).call_tool("buy", {"item": "rug"}))
        await shop.pending()
    made = await buying
    assert "Call the same tool" in text_of(made)
    await client.__aexit__(None, None, None)
    await shop.decided("approve")
    async with shop.listening() as url, shop.over_http(url) as again:

        async def ran() -> bool:
            return not (await again.call_tool("buy", {"item": "rug"})).is_error

        await until(ran)
        assert shop.bought == ["1 rug"]
