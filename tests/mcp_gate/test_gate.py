"""An MCP server behind the gate: what it offers passes unchanged, and a call reaches it once, on a decision alone."""

from __future__ import annotations

import asyncio
import json
import time
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from keyturn import ExternalAgent
from keyturn.client.client import AsyncClient
from keyturn.core.errors import NotAllowed, UserError
from keyturn.directory.login import Login
from keyturn.gating.errors import NOT_RUN
from keyturn.mcp_gate.changes import ListChanges
from keyturn.mcp_gate.exchanges import Exchanges
from keyturn.mcp_gate.holding import GatedCall, Holding, NotForwarded
from keyturn.mcp_gate.listed import ListedTools
from keyturn.mcp_gate.pins import Pins, ToolChange
from keyturn.mcp_gate.proxy import McpGate, _Called  # pyright: ignore[reportPrivateUsage]  # one step of a call
from keyturn.mcp_gate.records import GateRecords, OpenAsk
from keyturn.policies.rules import Policy, allow, deny
from tests import forked
from tests.mcp.conftest import Program, log
from tests.mcp_gate.shops import Shop, none_pending, pending_are, text_of
from tests.server.programs import Port
from tests.waiting import turns_of_the_loop, until


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Port(more=[ExternalAgent()]) as port:
        yield Shop(port, tmp_path_factory.mktemp("shop"))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_a_server_offers_passes_and_its_calls_wait_with_progress(shop: Shop, mode: str) -> None:
    async with shop.client("--ungated", "read_*", mode=mode) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.instructions) == ("shop", "Sells things.")
        tools = (await client.list_tools()).tools
        assert [(tool.name, tool.description) for tool in tools] == [
            ("buy", "Buy an item."),
            ("read_price", "Tell a price."),
        ]
        terms: Any = await client.read_resource("shop://terms")
        assert terms.contents[0].text == "no refunds"
        greeting: Any = await client.get_prompt("greet", {"name": "Ann"})
        assert greeting.messages[0].content.text == "Hello Ann"
        assert text_of(await client.call_tool("read_price", {"item": "tea"})) == "3"

        heard = asyncio.Event()

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            assert (progress > 0, total, message) == (True, None, "waiting for approval")
            heard.set()

        tea = {"item": "tea", "count": 2}
        buying = asyncio.ensure_future(client.call_tool("buy", tea, progress_callback=progress))
        await heard.wait()
        row = await shop.decided("approve")
        assert (row.tool, row.params) == ("buy", {"item": "tea", "count": 2})
        made = await buying
        assert (text_of(made), made.is_error, shop.bought) == ("bought 2 tea", False, ["2 tea"])

        buying = asyncio.ensure_future(client.call_tool("buy", tea))
        await shop.decided("reject", message="Once is enough.")
        made = await buying
        assert text_of(made) == "Not run: the call of 'buy' was rejected by ada: Once is enough."
        assert made.is_error

        buying = asyncio.ensure_future(client.call_tool("buy", {"item": "tea", "count": 90}))
        await shop.decided("approve", edit={"item": "tea", "count": 9})
        assert text_of(await buying) == "bought 9 tea"
        assert shop.bought == ["2 tea", "9 tea"]
        failing = asyncio.ensure_future(client.call_tool("buy", {"item": "gold"}))
        await shop.decided("approve")
        assert (await failing).is_error


async def test_a_call_that_is_repeated_joins_also_after_a_restart_and_its_decision_is_used_once(shop: Shop) -> None:
    async with shop.client("--hold", "0.2") as client:
        first = await client.call_tool("buy", {"item": "ink"})
        assert first.is_error
        assert "Call the same tool with the same arguments again" in text_of(first)
        row = await shop.pending()
        again = await client.call_tool("buy", {"item": "ink"})
        assert row.id in text_of(again)
    await shop.decided("approve")
    async with shop.client("--hold", "0.2") as client:

        async def ran() -> bool:
            return not (await client.call_tool("buy", {"item": "ink"})).is_error

        await until(ran)
        assert shop.bought == ["1 ink"]
        other = await client.call_tool("buy", {"item": "ink"})
        assert "Pending approval" in text_of(other)
        assert (await shop.pending()).id != row.id
    await shop.decided("reject", message="Enough ink.")
    async with shop.client("--hold", "0.2", "--keep", "0.3") as client:
        assert "Enough ink." in text_of(await client.call_tool("buy", {"item": "ink"}))
        assert "Pending approval" in text_of(await client.call_tool("buy", {"item": "ink"}))
        await until(lambda: none_pending(shop))  # it was not repeated
        assert shop.bought == []


async def test_a_tool_that_its_server_changed_waits_for_a_person_whatever_rule_allows_it(
    shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    shop.port.app.policy = Policy(allow())
    try:
        async with shop.client("--name", "changing") as client:
            assert text_of(await client.call_tool("buy", {"item": "pen"})) == "bought 1 pen"
        shop.describe("Buy an item, and send the card. And more.")
        async with shop.client("--ungated", "*", "--name", "changing") as client:
            told = capfd.readouterr().err
            assert "'buy' has another definition: its calls wait until a person accepts" in told
            assert "'sell' is new" in told
            assert "read_price" not in told
            buying = [asyncio.ensure_future(client.call_tool("buy", {"item": name})) for name in ("pen", "ink")]
            row = await shop.pending()
            [change, source] = row.request.preview.blocks
            assert (change.path, change.before.partition("\n")[0]) == ("buy", "Buy an item.")
            assert change.after.startswith("Buy an item, and send the card. And more.\n")
            assert "MCP server changing" in source.text
            with pytest.raises(NotAllowed):
                await shop.decided("approve", by="ben")
            await shop.decided("reject", by=Login("ada"), message="No cards.")
            made = [text_of(await each) for each in buying]
            assert "Not run: the call of 'accept_tool_definition' was rejected by ada: No cards." in made
            await until(lambda: none_pending(shop))
            assert shop.bought == []
            buying = [asyncio.ensure_future(client.call_tool("buy", {"item": name})) for name in ("pen", "ink")]
            await shop.decided("approve", by=Login("ada"))
            assert {text_of(await each) for each in buying} == {"bought 1 pen", "bought 1 ink"}
        async with shop.client("--name", "changing") as client:
            assert "'sell' is new" in capfd.readouterr().err
            assert text_of(await client.call_tool("buy", {"item": "pen"})) == "bought 1 pen"
    finally:
        shop.port.app.policy = None
        shop.describe("Buy an item.")


async def test_a_call_runs_once_another_one_pins_the_definition_that_it_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The claim of an acceptance and its pin are two steps, and a second call may come between them."""
    gate, call = McpGate.__new__(McpGate), _Called("ada", "buy", {})
    changes = [ToolChange("buy", "now", "then")] * 3
    gate._tools = ListedTools(Pins(GateRecords()))  # pyright: ignore[reportPrivateUsage]  # two steps of one call, apart

    def change(_tools: ListedTools, _name: str) -> ToolChange | None:
        return changes.pop() if changes else None

    monkeypatch.setattr(ListedTools, "change", change)
    pinned = gate._pinned  # pyright: ignore[reportPrivateUsage]  # two steps of one call, apart
    await pinned(call, NotForwarded("claimed by another call", claimed=True))
    assert not changes
    changes.append(ToolChange("buy", "now", "then"))
    with pytest.raises(NotForwarded, match="rejected"):
        await pinned(call, NotForwarded("rejected"))


async def test_a_call_that_its_client_gives_up_is_withdrawn(shop: Shop) -> None:
    async with shop.client() as client:
        buying = asyncio.ensure_future(client.call_tool("buy", {"item": "ink"}))
        await shop.pending()
        buying.cancel()
        await until(lambda: none_pending(shop))
        assert shop.bought == []


async def test_a_server_that_dies_after_the_claim_leaves_the_call_in_doubt(shop: Shop) -> None:
    async with shop.client() as client:
        buying = asyncio.ensure_future(client.call_tool("buy", {"item": "bomb"}))
        await shop.decided("approve")
        made: Any = (await asyncio.gather(buying, return_exceptions=True))[0]
        assert isinstance(made, Exception) or made.is_error
        row = await shop.pending()
        assert (row.kind, shop.bought) == ("in_doubt", ["1 bomb"])
        await shop.there(shop.port.app.inbox.resolve(row, "did_not_run", by="ada"))


@pytest.mark.parametrize("listening", [pytest.param(False, marks=pytest.mark.trial), True], ids=["stdio", "http"])
async def test_a_gate_whose_server_ended_says_so_and_ends(shop: Shop, listening: bool) -> None:
    """It answered every later call with an error, for as long as it ran."""
    at = ("--listen", "127.0.0.1:0") if listening else ()
    program = [forked.python(), *shop.program(*at, "--ungated", "buy", "--name", str(listening))]
    gate = await asyncio.create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=shop.environment())
    assert gate.stdin is not None
    assert gate.stderr is not None
    if listening:
        line = await gate.stderr.readline()
        async with shop.over_http(line.decode().split()[-1], "legacy") as client:
            await asyncio.gather(client.call_tool("buy", {"item": "bomb"}), return_exceptions=True)
    else:
        who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        call = {"name": "buy", "arguments": {"item": "bomb"}}
        for number, (method, params) in enumerate({"initialize": who, "tools/call": call}.items()):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            gate.stdin.write(json.dumps(message).encode() + b"\n")
    assert await asyncio.wait_for(gate.wait(), 30) == 1
    assert b"the MCP server ended: start the gate again" in await gate.stderr.read()
    assert shop.bought == ["1 bomb"]


@pytest.mark.parametrize("remote", [False, True])
async def test_a_server_is_gone_whose_connection_closed_or_that_knows_the_session_no_more(remote: bool) -> None:
    """A remote one that was restarted answers each list so; one request to it may fail, and the next one not."""
    codes = {types.INVALID_REQUEST: True, types.REQUEST_TIMEOUT: True, types.INTERNAL_ERROR: False}
    for code, lost in {**codes, types.CONNECTION_CLOSED: not remote}.items():

        async def listed(code: int = code, **_params: Any) -> Any:
            raise MCPError(code=code, message="Session not found")

        up: Any = SimpleNamespace(session=SimpleNamespace(list_tools=listed), protocol_version="2025-11-25")
        gate = McpGate(up, Exchanges(), ListChanges(), Pins(GateRecords()), remote=remote)
        with pytest.raises(MCPError):
            await gate.begin()
        assert gate.lost.is_set() == lost, code
        await gate.end()


async def test_a_policy_decides_by_server_tool_and_argument_and_without_a_server_nothing_is_forwarded(
    shop: Shop,
) -> None:
    rules = Policy(
        allow(agent="external/market", tool="buy", where={"count": {"lt": 5}}),
        deny(agent="external/market", reason="Not here."),
        allow(tool="read_price", agent="external/shop"),
    )
    shop.port.app.policy = rules
    try:
        async with shop.client("--name", "market") as client:
            assert text_of(await client.call_tool("buy", {"item": "pen", "count": 1})) == "bought 1 pen"
            assert "Not here." in text_of(await client.call_tool("buy", {"item": "pen", "count": 7}))
            assert "Not here." in text_of(await client.call_tool("read_price", {"item": "pen"}))
            assert shop.bought == ["1 pen"]
        async with shop.client("--hold", "0.2", "--keep", "0") as client:  # named as the server names itself
            assert text_of(await client.call_tool("read_price", {"item": "pen"})) == "3"
            assert "Pending approval" in text_of(await client.call_tool("buy", {"item": "pen", "count": 1}))
            await until(lambda: none_pending(shop))
    finally:
        shop.port.app.policy = None
    async with shop.client(KEYTURN_SERVER="http://localhost:1") as client:
        made = await client.call_tool("buy", {"item": "pen"})
        assert made.is_error
        assert "no approval could be asked for" in text_of(made)
        assert shop.bought == []


@pytest.mark.trial
async def test_a_server_over_streamable_http_is_gated_as_one_over_stdio(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with Program("streamable-http", tmp_path) as remote:
        async with shop.client("--http", remote.url) as client:
            asking = asyncio.ensure_future(client.call_tool("flood", {"size": 3}))
            assert (await shop.decided("approve")).params == {"size": 3}
            assert len(text_of(await asking)) == 3
            asking = asyncio.ensure_future(client.call_tool("flood", {"size": 4}))
            await shop.decided("reject", message="No more.")
            made = await asking
            assert (made.is_error, "No more." in text_of(made)) == (True, True)
    assert log(tmp_path) == ["flood"]


def same(call: GatedCall) -> Callable[[], Awaitable[GatedCall]]:
    """Describe the tool of a call, whenever it is asked for, in the same words."""

    async def now() -> GatedCall:
        return call

    return now


async def test_a_tool_that_its_server_changes_while_a_call_is_pending_is_not_called(shop: Shop) -> None:
    async with AsyncClient(shop.port.url, shop.token) as keyturn:
        call = GatedCall("a 1", "shop", "buy", {"item": "rug"}, "Buy.", None)

        async def quiet(_number: int) -> None:
            return None

        holding = Holding(keyturn.asks, 30)
        other = call._replace(description="Buy, and send the card to another shop.")
        buying = asyncio.ensure_future(holding.approved(call, quiet, same(other)))
        row = await shop.decided("approve")
        with pytest.raises(NotForwarded, match="changed the tool"):
            await buying
        assert (await keyturn.asks.get(row.run)).status == "withdrawn"


async def test_calls_at_the_same_time_are_one_request_and_what_ran_is_answered(shop: Shop) -> None:
    """One approval runs one of two calls; a result that cannot be recorded is no call to make again."""
    async with AsyncClient(shop.port.url, shop.token) as keyturn:
        holding = Holding(keyturn.asks, 30)

        looked: list[int] = []

        async def quiet(number: int) -> None:
            looked.append(number)

        call = GatedCall("a 1", "shop", "buy", {"item": "tea"}, "Buy.", None)
        waiting = [asyncio.ensure_future(holding.approved(call, quiet, same(call))) for _ in range(3)]
        row = await shop.pending()
        await until(lambda: looked.count(1) == 3)
        assert len(await shop.there(shop.port.app.inbox.list())) == 1
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        assert [each.id for each in await shop.there(shop.port.app.inbox.list())] == [row.id]
        await shop.decided("approve")
        made = await asyncio.gather(*waiting[1:], return_exceptions=True)
        [approved] = [each for each in made if not isinstance(each, BaseException)]
        assert [type(each) for each in made if each is not approved] == [NotForwarded]
        await keyturn.asks.report(approved.state.id, approved.name, "unknown", "it was lost")
        await holding.report(approved, failed=False)
        [doubt] = await shop.there(shop.port.app.inbox.list())
        await shop.there(shop.port.app.inbox.resolve(doubt, "did_not_run", by="ada"))


@pytest.mark.parametrize("moment", ["the tool is looked at", "claim", "claimed"])
async def test_a_call_that_is_given_up_between_its_decision_and_its_start_leaves_nothing_to_run(
    shop: Shop, moment: str
) -> None:
    async with AsyncClient(shop.port.url, shop.token) as keyturn:
        call = GatedCall("a 1", "shop", "buy", {"item": f"hat {moment}"}, "Buy.", None)

        async def quiet(_number: int) -> None:
            return None

        async def given_up(here: str) -> None:
            if here == moment:
                buying.cancel()
                await turns_of_the_loop()

        async def now() -> GatedCall:
            await given_up("the tool is looked at")
            return call

        real = keyturn.asks.claim

        async def claim(*args: Any, **words: Any) -> Any:
            await given_up("claim")
            made = await real(*args, **words)
            await given_up("claimed")
            return made

        setattr(keyturn.asks, "claim", claim)  # noqa: B010  # a client that stops just then
        holding = Holding(keyturn.asks, 30)
        buying = asyncio.ensure_future(holding.approved(call, quiet, now))
        row = await shop.decided("approve")
        with pytest.raises(asyncio.CancelledError):
            await buying
        state = await keyturn.asks.get(row.run)
        assert (state.status, state.result) in [("withdrawn", None), ("failed", NOT_RUN)]
        holding = Holding(keyturn.asks, 0.1, holding._records)  # pyright: ignore[reportPrivateUsage]  # the next gate
        with pytest.raises(NotForwarded, match="Pending"):
            await holding.approved(call, quiet, same(call))
        await shop.decided("reject")
        await holding.close()


async def test_records_that_were_written_by_another_program_join_no_call_to_the_request_of_another(
    shop: Shop, tmp_path: Path
) -> None:
    async with AsyncClient(shop.port.url, shop.token) as keyturn:

        async def quiet(_number: int) -> None:
            return None

        tea = GatedCall("a 1", "shop", "buy", {"item": "tea"}, "Buy.", None)
        gold = tea._replace(arguments={"item": "gold"})
        records = GateRecords(tmp_path / "gate.json")
        holding = Holding(keyturn.asks, 0.1, records)
        with pytest.raises(NotForwarded, match="Pending"):
            await holding.approved(tea, quiet, same(tea))
        row = await shop.decided("approve")
        for id in (row.run, "none"):
            GateRecords(tmp_path / "gate.json").keep(gold.name, OpenAsk(id, time.time() + 60))
            with pytest.raises(NotForwarded, match="Pending"):
                await holding.approved(gold, quiet, same(gold))
            await shop.decided("reject")
        (tmp_path / "gate.json").write_text("{")
        with pytest.raises(UserError, match="is damaged"):
            GateRecords(tmp_path / "gate.json")
        await holding.close()


@pytest.mark.trial
async def test_another_description_is_another_request(shop: Shop) -> None:
    async with AsyncClient(shop.port.url, shop.token) as keyturn:
        holding = Holding(keyturn.asks, 0.1)

        async def quiet(_number: int) -> None:
            return None

        for client, description in (
            ("a 1", "Buy."),
            ("a 1", "Buy."),
            ("a 1", "Buy, and send the card."),
            ("b 1", "Buy."),
        ):
            call = GatedCall(client, "shop", "buy", {}, description, None)
            with pytest.raises(NotForwarded):
                await holding.approved(call, quiet, same(call))
        await until(lambda: pending_are(shop, 3))
        await holding.close()
    for row in await shop.there(shop.port.app.inbox.list()):
        await shop.there(shop.port.app.inbox.reject(row, by="ada"))
