"""A server asks people: by a question that outlives every process, or within an open call that does not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.types import ElicitResult
from pydantic import BaseModel

from keyturn import MCPServerStreamableHttp
from keyturn.mcp import lines as lines_module
from keyturn.mcp.base import MCPServerError
from keyturn.mcp.calls import OpenCalls, Parked, ParkedCalls, Unreached
from keyturn.mcp.loop_thread import mcp_loop
from keyturn.testing import approve_all
from tests.mcp.conftest import Inside, calling, log, over_stdio
from tests.playing import play, through_text
from tests.waiting import never, turns_of_the_loop, until

shop = MCPServer("shop", log_level="CRITICAL")
ran: list[str] = []


class Confirm(BaseModel):
    ok: bool
    reason: str = ""


def sure(amount: int) -> Elicit[Confirm]:
    return Elicit(f"Refund {amount}?", Confirm)


def who(amount: int) -> Elicit[Confirm]:
    return Elicit(f"Who pays {amount}?", Confirm)


@shop.tool()
async def refund(amount: int, sure: Annotated[Confirm, Resolve(sure)]) -> str:
    """Refunds, when somebody says so."""
    ran.append(f"refund {amount} {sure.ok}")
    return f"{sure.ok} {sure.reason}".strip()


@shop.tool()
async def split(amount: int, sure: Annotated[Confirm, Resolve(sure)], who: Annotated[Confirm, Resolve(who)]) -> str:
    """Asks two things."""
    ran.append(f"split {sure.reason} {who.reason}")
    return f"{sure.reason} {who.reason}"


@shop.tool()
async def hangs() -> str:
    """Never ends."""
    await asyncio.Event().wait()
    return ""


@shop.tool()
async def asks(amount: int, ctx: Context[Any, Any]) -> str:
    """Asks within its open call."""
    answer = await ctx.elicit(f"Really {amount}?", Confirm)
    ran.append(f"asks {amount} {answer.action}")
    return f"{answer.action} {getattr(answer, 'data', None)}"


gates: dict[str, asyncio.Event] = {}


@shop.tool()
async def twice(amount: int, ctx: Context[Any, Any]) -> str:
    """Asks two things within its open call, one after the other."""
    first = await ctx.elicit(f"Really {amount}?", Confirm)
    second = await ctx.elicit(f"And {amount + 1}?", Confirm)
    return f"{first.data.reason} {second.data.reason}" if first.action == second.action == "accept" else "declined"


@shop.tool()
async def gated(name: str) -> str:
    """Ends when the test says so."""
    gates[name] = asyncio.Event()
    await gates[name].wait()
    return name


@shop.tool()
async def quick() -> str:
    """Asks nobody."""
    return "quick"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def asked(agent: Any, *, streamed: bool = False) -> Any:
    """A run whose first call was approved, and which waits for people again: now because its server asks."""
    result = await play(agent, approve_all(await play(agent, streamed=streamed)), streamed=streamed)
    assert [item.kind for item in result.interruptions] == ["external"]
    return result


async def test_the_question_survives_both_processes(programs: Any, shop: Path) -> None:
    """The server is killed and started again, and the client is another: the answer finds its call."""
    program = programs("streamable-http")

    def server() -> MCPServerStreamableHttp:
        params: Any = {"url": program.url}
        return MCPServerStreamableHttp(params, name="s", client_session_timeout_seconds=20, require_approval="always")

    async with server() as first:
        result = await asked(calling(first, calls=("refund", {"amount": 7})))
        [item] = result.interruptions
        [question] = item.requests.values()
        assert (question["message"], question["mode"]) == ("Refund 7?", "form")
        assert question["requestedSchema"]["required"] == ["ok"]
        assert item.preview.summary == "MCP server s asks, within refund"
        state = result.to_state()
    program.kill()
    program.start()
    async with server() as second:
        agent = calling(second, calls=("refund", {"amount": 7}))
        state = await through_text(agent, state)
        state.answer(state.get_interruptions()[0], {"ok": True, "reason": "it was broken"})
        assert (await play(agent, state, streamed=True)).final_output == "refunded 7: True it was broken"
    assert log(shop) == ["refund 7 True"]


ANSWERS: list[tuple[Any, str]] = [
    ({"ok": False, "reason": "no"}, "False no"),
    ({"action": "accept", "content": {"ok": True}}, "True"),
]


@pytest.mark.parametrize(("answer", "read"), ANSWERS)
async def test_an_answer_is_the_content_or_says_what_it_is(streamed: bool, answer: Any, read: str) -> None:
    async with Inside(shop, require_approval="always") as server:
        agent = calling(server, calls=("refund", {"amount": 7}))
        result = await asked(agent, streamed=streamed)
        state = result.to_state()
        state.answer(state.get_interruptions()[0], answer)
        assert (await play(agent, state, streamed=streamed)).final_output == read


@pytest.mark.each
@pytest.mark.parametrize("how", ["reject", "decline", "cancel"])
async def test_nobody_has_to_answer(streamed: bool, how: str) -> None:
    async with Inside(shop) as server:
        agent = calling(server, calls=("refund", {"amount": 7}))
        state = (await play(agent, streamed=streamed)).to_state()
        [item] = state.get_interruptions()
        if how == "reject":
            state.reject(item)
        else:
            state.answer(item, {"action": how})
        result = await play(agent, state, streamed=streamed)
        assert (result.interruptions, ran) == ([], [])
        assert result.final_output.startswith("Error executing tool refund")


@pytest.mark.parametrize(
    "answer", [{}, {"ok": "yes"}, "yes", {"action": "accept"}, {"ok": True, "reason": {"deep": 1}}]
)
async def test_an_answer_that_does_not_fit_is_asked_for_again(answer: Any) -> None:
    for mode in ("auto", "legacy"):
        async with Inside(shop, mode=mode) as server:
            agent = calling(server, calls=("refund", {"amount": 7}))
            state = (await play(agent)).to_state()
            state.answer(state.get_interruptions()[0], answer)
            again = await play(agent, state)
            [item] = again.interruptions
            assert item.kind == "external"
            assert "answer" in item.requests["problem"]
            state = again.to_state()
            state.answer(item, {"ok": True})
            assert (await play(agent, state)).final_output == "True"


async def test_several_questions_are_answered_by_key() -> None:
    async with Inside(shop) as server:
        agent = calling(server, calls=("split", {"amount": 7}))
        result = await play(agent)
        rounds = 0
        while result.interruptions:
            rounds += 1
            state = result.to_state()
            [item] = state.get_interruptions()
            questions = {key: asked for key, asked in item.requests.items() if key != "problem"}
            state.answer(item, {key: {"ok": True, "reason": asked["message"]} for key, asked in questions.items()})
            result = await play(agent, state)
        assert (result.final_output, rounds <= 2) == ("Refund 7? Who pays 7?", True)


async def test_an_open_call_is_parked_and_goes_on(streamed: bool) -> None:
    async with Inside(shop, mode="legacy", seconds=0.5, require_approval="always") as server:
        agent = calling(server, calls=("asks", {"amount": 5}))
        result = await asked(agent, streamed=streamed)
        assert result.interruptions[0].requests["elicitation"]["message"] == "Really 5?"
        await asyncio.sleep(0.6)  # more than a call may take: that time is people's, and not the server's
        state = await through_text(agent, result.to_state())
        state.answer(state.get_interruptions()[0], {"ok": True, "reason": "yes"})
        assert (await play(agent, state, streamed=streamed)).final_output == "accept ok=True reason='yes'"
        assert ran == ["asks 5 accept"], "the very call went on; it was not made again"


@pytest.mark.each
@pytest.mark.parametrize("how", ["the server object is another", "the connection is another", "too many wait"])
async def test_an_open_call_that_is_gone_is_in_doubt(streamed: bool, how: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(lines_module, "OPEN_LINES", 1)
    async with Inside(shop, mode="legacy") as server, Inside(shop, mode="legacy") as other:
        agent = calling(server, calls=("asks", {"amount": 5}))
        result = await play(agent, streamed=streamed)
        state = result.to_state()
        if how == "the server object is another":
            agent = calling(other, calls=("asks", {"amount": 5}))
            state = await through_text(agent, state)
        elif how == "the connection is another":
            await server.cleanup()
            await server.connect()
        else:
            await play(calling(server, calls=("asks", {"amount": 6})))
        state.answer(state.get_interruptions()[0], {"ok": True})
        [item] = (await play(agent, state, streamed=streamed)).interruptions
        assert item.kind == "in_doubt"
        assert "gone" in item.reason
        assert "asks 5 accept" not in ran


async def test_a_question_waits_until_it_is_clear_whose_it_is() -> None:
    async with Inside(shop, mode="legacy") as server:
        agent = calling(server, calls=[("asks", {"amount": 5}), ("quick", {})])
        result = await play(agent)
        [item] = result.interruptions
        assert item.name == "asks"
        state = result.to_state()
        state.answer(item, {"ok": True})
        assert (await play(agent, state)).final_output == "accept ok=True reason='' | quick"


@pytest.mark.parametrize("given_up", ["before it asks", "while it is not clear who asks"])
async def test_what_a_call_asks_that_was_given_up_is_of_no_other_call(given_up: str) -> None:
    """Its server works on, as one may that ignores a cancel: another run's people would answer in its place."""
    calls, ends = OpenCalls(ParkedCalls()), asyncio.Event()
    first = asyncio.ensure_future(calls.run(never(), None))
    other = asyncio.ensure_future(calls.run(ends.wait(), None))
    await turns_of_the_loop(5)
    asks = None
    if given_up == "while it is not clear who asks":
        asks = asyncio.ensure_future(calls.ask("Pay 1000?"))
        await turns_of_the_loop(5)
    first.cancel()
    await turns_of_the_loop(5)
    assert await (asks or calls.ask("Pay 1000?")) is None
    ends.set()
    assert await other is True, "the call beside it was asked nothing"


async def test_a_call_is_asked_one_thing_after_the_other() -> None:
    parked = ParkedCalls()
    calls, ends = OpenCalls(parked), asyncio.Event()
    running = asyncio.ensure_future(calls.run(ends.wait(), None))
    await turns_of_the_loop(5)
    asks = [asyncio.ensure_future(calls.ask(f"{number}?")) for number in range(3)]
    answered = await running
    for number in range(3):
        assert isinstance(answered, Parked)
        assert answered.params == f"{number}?"
        if number == 2:
            ends.set()
        answered = await parked.go_on(answered.token, number, None)
    assert (answered, [await each for each in asks]) == (True, [0, 1, 2])


def open_gates() -> None:
    for gate in gates.values():
        mcp_loop().call_soon_threadsafe(gate.set)  # where the server is at work


def lines(server: Any) -> list[Any]:
    """The connections of a server, the one that all calls share first."""
    return [vars(server)["_connection"], *vars(vars(server)["_own"])["_lines"]]


async def test_a_second_question_is_shown_in_its_own_call_while_another_is_at_work(streamed: bool) -> None:
    """It was shown in the call beside it, whose people answered in another's place."""
    gates.clear()
    async with Inside(shop, mode="legacy") as server:
        first = calling(server, calls=("twice", {"amount": 5}))
        result = await play(first, streamed=streamed)
        beside = asyncio.ensure_future(play(calling(server, calls=("gated", {"name": "b"})), streamed=streamed))
        await until(lambda: "b" in gates)
        state = result.to_state()
        state.answer(state.get_interruptions()[0], {"ok": True, "reason": "one"})
        result = await play(first, state, streamed=streamed)
        [item] = result.interruptions
        assert item.requests["elicitation"]["message"] == "And 6?"
        open_gates()
        assert (await beside).final_output == "b"
        state = result.to_state()
        state.answer(item, {"ok": True, "reason": "two"})
        assert (await play(first, state, streamed=streamed)).final_output == "one two"


async def test_calls_that_stand_open_at_once_are_each_asked_on_a_connection_of_their_own() -> None:
    async with Inside(shop, mode="legacy") as server:
        states = [(await play(calling(server, calls=("twice", {"amount": 0})))).to_state()]
        agents = [calling(server, calls=("twice", {"amount": amount})) for amount in range(1, 6)]
        states += [result.to_state() for result in await asyncio.gather(*map(play, agents))]
        assert len(lines(server)) == 6
        agents = [calling(server, calls=("twice", {"amount": 0})), *agents]
        for round_of in range(2):
            for amount, state in enumerate(states):
                [item] = state.get_interruptions()
                asked = item.requests["elicitation"]["message"]
                assert asked == (f"And {amount + 1}?" if round_of else f"Really {amount}?")
                state.answer(item, {"ok": True, "reason": str(amount)})
            results = await asyncio.gather(*map(play, agents, states))
            states = [result.to_state() for result in results] if not round_of else []
        assert [result.final_output for result in results] == [f"{amount} {amount}" for amount in range(6)]
        await until(lambda: len(lines(server)) == 1 + lines_module.IDLE_LINES)
        assert (await play(calling(server, calls=[("quick", {}), ("quick", {})]))).final_output == "quick | quick"


async def test_a_server_that_asks_nothing_has_one_connection_for_all_calls() -> None:
    """It may keep what it knows by connection, and a started one is a process each."""
    gates.clear()
    async with Inside(shop, mode="legacy") as server:
        results = [asyncio.ensure_future(server.call_tool("gated", {"name": name})) for name in "abc"]
        await until(lambda: len(gates) == 3)
        assert len(lines(server)) == 1
        open_gates()
        await asyncio.gather(*results)


async def test_where_all_connections_are_at_work_nothing_is_sent(monkeypatch: Any) -> None:
    gates.clear()
    monkeypatch.setattr(lines_module, "OPEN_LINES", 2)
    async with Inside(shop, mode="legacy") as server:
        await server.call_tool("asks", {"amount": 1})
        working = [asyncio.ensure_future(server.call_tool("gated", {"name": name})) for name in "ab"]
        await until(lambda: len(gates) == 2)
        with pytest.raises(MCPServerError, match="calls are at work on all connections") as refused:
            await server.call_tool("quick", {})
        assert not refused.value.may_have_acted
        open_gates()
        await asyncio.gather(*working)
        assert (await server.call_tool("quick", {})).content[0].text == "quick"


async def test_a_connection_that_is_opened_as_its_server_is_closed_is_closed_too() -> None:
    opens, closed = asyncio.Event(), list[str]()

    class Slow:
        async def close(self) -> None:
            closed.append("closed")

    async def opened() -> Any:
        await opens.wait()
        return Slow()

    own = lines_module.OwnLines(opened)
    opening = asyncio.ensure_future(own.open())
    await turns_of_the_loop(5)
    await own.close()
    opens.set()
    with pytest.raises(Unreached):
        await opening
    assert (closed, own.free()) == (["closed"], None)


@pytest.mark.trial
@pytest.mark.parametrize("transport", ["stdio", "streamable-http"])
async def test_real_servers_of_the_older_protocol_ask_each_call_by_itself(
    transport: str, programs: Any, shop: Path
) -> None:
    options: dict[str, Any] = {"mode": "legacy"}
    if transport == "stdio":
        made: Any = over_stdio(shop, **options)
    else:
        params: Any = {"url": programs("streamable-http").url}
        made = MCPServerStreamableHttp(params, name="shop", client_session_timeout_seconds=20, **options)
    async with made as server:
        agents = [calling(server, calls=("swap", {"amount": amount})) for amount in range(2)]
        states = [(await play(agent)).to_state() for agent in agents]
        assert len(lines(server)) == 2
        for asked in ("Give {}?", "Take {}?"):
            for amount, (agent, state) in enumerate(zip(agents, states, strict=True)):
                [item] = state.get_interruptions()
                assert item.requests["elicitation"]["message"] == asked.format(amount)
                state.answer(item, {"ok": True, "reason": str(amount)})
                states[amount] = (await play(agent, state)).to_state()
    assert log(shop) == ["swap 0 0 0", "swap 1 1 1"]


async def test_a_server_that_may_ask_for_a_call_that_was_given_up_is_connected_anew() -> None:
    async with Inside(shop, mode="legacy", seconds=0.3) as server:
        agent = calling(server, calls=("asks", {"amount": 5}))
        state = (await play(agent)).to_state()
        state.answer(state.get_interruptions()[0], {"ok": True})
        assert (await play(agent, state)).final_output == "accept ok=True reason=''"
        before = vars(server)["_connection"]
        with pytest.raises(MCPServerError, match="did not answer"):
            await server.call_tool("hangs", {})
        assert vars(server)["_connection"] is before
        state = (await play(calling(server, calls=("asks", {"amount": 6})))).to_state()
        assert vars(server)["_connection"] is not before
        assert [item.kind for item in state.get_interruptions()] == ["external"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("form", ["result", "dict", "sync"])
async def test_a_callback_answers_in_line(mode: str, form: str) -> None:
    loop, where = asyncio.get_running_loop(), list[Any]()

    async def answer(_context: Any, params: Any) -> Any:
        where.append(asyncio.get_running_loop())
        content = {"ok": True, "reason": params.message}
        return ElicitResult(action="accept", content=content) if form == "result" else content

    def at_once(_context: Any, params: Any) -> Any:
        where.append(asyncio.get_running_loop())
        return {"action": "accept", "content": {"ok": True, "reason": params.message}}

    callback = at_once if form == "sync" else answer
    async with Inside(shop, mode=mode, elicitation_callback=callback) as server:
        assert (await play(calling(server, calls=("refund", {"amount": 7})))).final_output == "True Refund 7?"
        assert where == [loop], "it runs where the run does"


async def test_ones_own_call_declines() -> None:
    for mode in ("auto", "legacy"):
        async with Inside(shop, mode=mode) as server:
            assert (await server.call_tool("refund", {"amount": 1})).is_error
    async with Inside(shop, mode="legacy") as server:
        assert (await server.call_tool("asks", {"amount": 1})).content[0].text == "decline None"
