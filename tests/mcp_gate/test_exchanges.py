"""What a server asks within a call goes to the user of the client that called, whichever version each of them has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from keyturn import ExternalAgent
from keyturn.client.client import AsyncClient
from keyturn.gating.errors import NOT_RUN
from keyturn.mcp_gate.callers import silent
from keyturn.mcp_gate.changes import ListChanges
from keyturn.mcp_gate.exchanges import Exchanges, ServerExchange
from keyturn.mcp_gate.holding import Approved, GatedCall, Holding
from keyturn.mcp_gate.pins import Pins
from keyturn.mcp_gate.proxy import McpGate
from keyturn.mcp_gate.records import GateRecords
from tests.mcp_gate.painters import ASKED, gate_of, red
from tests.mcp_gate.shops import Shop, text_of
from tests.server.programs import Port
from tests.waiting import turns_of_the_loop

PAINT = types.CallToolRequestParams(name="paint", arguments={})
ERAS = ("auto", "legacy")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Port(more=[ExternalAgent()]) as port:
        yield Shop(port, tmp_path_factory.mktemp("shop"))


@pytest.mark.parametrize("era", ERAS)
async def test_the_user_of_the_client_is_asked_what_the_server_asks(shop: Shop, era: str) -> None:
    for own in ERAS:
        done: list[str] = []
        async with gate_of(shop, done, era) as server:
            async with Client(server, mode=own, elicitation_callback=red) as client:
                painting = asyncio.ensure_future(client.call_tool("paint", {}))
                row = await shop.decided("approve")
                assert text_of(await painting) == "painted red", (era, own)
                assert done == ["red"]
                state = await shop.there(shop.port.app.asks.get(row.run, account="editor"))
                assert state.status == "succeeded"
            async with Client(server, mode=own) as mute:  # which declares that it can ask no user
                painting = asyncio.ensure_future(mute.call_tool("paint", {}))
                await shop.decided("approve")
                assert text_of(await painting) == "painted decline", (era, own)


@pytest.mark.parametrize("era", ERAS)
async def test_a_state_answers_the_question_of_its_own_call_once(shop: Shop, era: str) -> None:
    done: list[str] = []
    answers: Any = {
        name: types.ElicitResult(action="accept", content={"color": "red"}) for name in ("color", "question")
    }

    async with gate_of(shop, done, era) as server, Client(server, elicitation_callback=red) as client:

        async def called(arguments: dict[str, Any], state: str | None = None, tool: str = "paint") -> Any:
            return await client.session.call_tool(
                tool, arguments, input_responses=answers if state else None, request_state=state,
                allow_input_required=True,
            )  # fmt: skip

        for forged in ("forged", "the server's own"):
            assert "answers no question" in text_of(await called({}, forged))
        assert await shop.there(shop.port.app.inbox.list()) == []
        painting = asyncio.ensure_future(called({"wall": "north"}))
        await shop.decided("approve")
        asked = await painting
        assert isinstance(asked, types.InputRequiredResult)
        assert asked.request_state != "the server's own"
        assert "answers no question" in text_of(await called({"wall": "south"}, asked.request_state))
        assert "answers no question" in text_of(await called({"wall": "north"}, asked.request_state, "burn"))
        assert done == []
        assert text_of(await called({"wall": "north"}, asked.request_state)) == "painted red"
        assert "answers no question" in text_of(await called({"wall": "north"}, asked.request_state))
        assert done == ["red"]


async def test_a_gate_that_ends_while_its_client_has_a_question_leaves_the_call_in_doubt(shop: Shop) -> None:
    done: list[str] = []
    async with gate_of(shop, done, "auto") as server, Client(server, elicitation_callback=red) as client:
        painting = asyncio.ensure_future(client.session.call_tool("paint", {}, allow_input_required=True))
        await shop.decided("approve")
        assert isinstance(await painting, types.InputRequiredResult)
    row = await shop.pending()
    assert (row.kind, done) == ("in_doubt", [])
    await shop.there(shop.port.app.inbox.resolve(row, "did_not_run", by="ada"))


@pytest.mark.parametrize("moment", ["claimed", "forwarded"])
async def test_a_call_that_is_given_up_between_its_claim_and_its_first_step_is_not_in_doubt(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    async with AsyncClient(shop.port.url, shop.token) as keyturn:
        exchanges, holding = Exchanges(), Holding(keyturn.asks, 30)
        up: Any = SimpleNamespace(server_info=None, session=None)
        gate = McpGate(up, exchanges, ListChanges(), Pins(GateRecords()), holding)
        call = GatedCall("a 1", "painter", "paint", {"moment": moment}, "Paint.", None)

        async def now() -> GatedCall:
            return call

        async def approved(*_given: Any) -> Approved:
            made = await holding.approved(call, silent, now)
            if moment == "claimed":
                calling.cancel()
            return made

        begun = Exchanges.begun

        async def begun_late(*given: Any) -> Any:
            if moment == "forwarded":
                calling.cancel()
            return await begun(*given)

        monkeypatch.setattr(McpGate, "_approved", approved)
        monkeypatch.setattr(Exchanges, "begun", begun_late)
        context: Any = SimpleNamespace(request=None, session=None)
        calling = asyncio.ensure_future(gate._call(context, PAINT))  # pyright: ignore[reportPrivateUsage]  # its turns
        row = await shop.decided("approve")
        with pytest.raises(asyncio.CancelledError):
            await calling
        await exchanges.end()
        state = await keyturn.asks.get(row.run)
        assert (state.status, state.result) == ("failed", NOT_RUN)


async def test_what_came_of_a_call_is_reported_whose_client_gives_it_up_meanwhile(shop: Shop) -> None:
    async with AsyncClient(shop.port.url, shop.token) as keyturn:
        holding, reporting = Holding(keyturn.asks, 30), asyncio.Event()
        call = GatedCall("a 1", "painter", "paint", {"at": "last"}, "Paint.", None)
        report = keyturn.asks.report

        async def slow(*given: Any) -> Any:
            reporting.set()
            await turns_of_the_loop()
            return await report(*given)

        async def now() -> GatedCall:
            return call

        setattr(keyturn.asks, "report", slow)  # noqa: B010  # a client that gives up just then
        approving = asyncio.ensure_future(holding.approved(call, silent, now))
        row = await shop.decided("approve")
        reports = asyncio.ensure_future(holding.report(await approving, failed=False))
        await reporting.wait()
        reports.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reports
        await holding.close()
        assert (await keyturn.asks.get(row.run)).status == "succeeded"


async def test_a_server_that_asks_while_two_calls_are_at_work_is_declined() -> None:
    exchanges = Exchanges()
    at_work = [asyncio.Event() for _ in range(2)]

    async def working(event: asyncio.Event, _exchange: ServerExchange) -> types.CallToolResult:
        await event.wait()
        return types.CallToolResult(content=[])

    async def unbegun() -> None:
        raise AssertionError("each call begins")

    calls = [
        asyncio.ensure_future(exchanges.begun(None, str(number), partial(working, event), unbegun))
        for number, event in enumerate(at_work)
    ]
    await asyncio.wait(calls, timeout=0)
    assert (await exchanges.elicited(None, ASKED)).action == "decline"
    for event in at_work:
        event.set()
    await asyncio.gather(*calls)
