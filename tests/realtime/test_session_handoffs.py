"""Nested agents, answers and handoffs in a realtime session: what waits stays the call of the agent that made it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from keyturn import (
    Agent,
    App,
    MemoryJournal,
    Policy,
    RunConfig,
    ToolGuardrailFunctionOutput,
    UserError,
    ask_user,
    function_tool,
    handoff,
    tool_output_guardrail,
)
from keyturn.audit.checker import check
from keyturn.policies.rules import ask
from keyturn.realtime import RealtimeAgent, RealtimeRunner, realtime_handoff
from keyturn.testing import ScriptedModel, function_call
from keyturn.testing.loopback.realtime import Call
from tests.realtime.attending import OwnModel, conversing, talking_to
from tests.realtime.desk import ran, refund, weather
from tests.waiting import until


def two() -> tuple[RealtimeAgent[Any], RealtimeAgent[Any]]:
    billing: RealtimeAgent[Any] = RealtimeAgent("Billing", instructions="Bill.", tools=[weather])
    return RealtimeAgent("Support", instructions="Help.", tools=[refund], handoffs=[billing]), billing


async def test_a_nested_agents_call_waits_and_is_approved() -> None:
    model = ScriptedModel([[function_call("refund", {"order": "A1"}, call_id="n1")], "It is refunded."])
    inner = Agent("Refunds", model=model, tools=[refund])
    agent: RealtimeAgent[Any] = RealtimeAgent("Support", tools=[inner.as_tool("refunds", "Refund things.")])
    journal = MemoryJournal()
    script = [Call("refunds", {"input": "A1"}, "c1"), "It waits.", "Done."]
    async with conversing(agent, script, journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        asked = await told.until("tool_approval_required")
        assert (asked.agent.name, asked.tool.name, asked.call_id) == ("Refunds", "refund", "n1")
        assert ran == []
        await session.approve_tool_call("n1")
        assert await server.answered("c1") == "It is refunded."
        await told.until("tool_end")
        assert server.errors == []
    assert ran == ["A1"]
    assert (await check(journal)).ok


async def test_a_tool_that_asks_is_answered() -> None:
    agent: RealtimeAgent[Any] = RealtimeAgent("Support", tools=[ask_user()])
    script = [Call("ask_user", {"question": "Which?"}, "c1"), "It waits.", "Thanks."]
    async with conversing(agent, script) as (session, server, told):
        await session.send_message("Do it")
        asked = await told.until("tool_approval_required")
        assert asked.item.kind == "external"
        with pytest.raises(Exception, match="answer"):
            await session.approve_tool_call(asked.item)
        await session.answer_tool_call(asked.item, "the red one")
        assert await server.answered("c1") == "the red one"


async def test_an_answer_in_a_tools_place_is_judged_before_the_model_hears_it() -> None:
    @tool_output_guardrail
    def keys(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("withheld")

    @function_tool(needs_approval=True, tool_output_guardrails=[keys])
    def look() -> str:
        return "nothing"

    agent: RealtimeAgent[Any] = RealtimeAgent("Support", tools=[look])
    async with conversing(agent, [Call("look", {}, "c1"), "It waits.", "Thanks."]) as (session, server, told):
        await session.send_message("Do it")
        asked = await told.until("tool_approval_required")
        await session.answer_tool_call(asked.item, "sk-live-4242")
        assert await server.answered("c1") == "withheld"


async def test_a_call_that_waits_over_a_handoff_runs_as_its_first_agents() -> None:
    agent, billing = two()
    journal = MemoryJournal()
    script = [
        [Call("refund", {"order": "A1"}, "c1")],
        "It waits.",
        Call("transfer_to_billing", {}, "h1"),
        "Billing here.",
        Call("weather", {}, "w1"),
        "Sunny.",
        "Refunded.",
    ]
    async with conversing(agent, script, journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        await told.until("tool_approval_required")
        await told.until("agent_end", 2)
        await session.send_message("Billing please")
        moved = await told.until("handoff")
        assert (moved.from_agent, moved.to_agent) == (agent, billing)
        assert session.current_agent is billing
        await told.until("agent_end", 4)
        await session.send_message("Weather?")
        assert await server.answered("w1") == "sunny"
        await told.until("agent_end", 6)
        await session.approve_tool_call("c1")
        assert await server.answered("c1") == "refunded A1"
        ended = await until(lambda: [e for e in told.of("tool_end") if e.call_id == "c1"])
        assert ended[0].agent is agent
        await told.until("agent_end", 7)
        assert server.errors == []
        updates = [m["session"] for m in server.messages if m["type"] == "session.update"]
        assert updates[-1]["instructions"] == "Bill."
        assert [tool["name"] for tool in updates[-1]["tools"]] == ["weather"]
    assert ran == ["weather", "A1"]
    assert (await check(journal)).ok


async def test_a_handoff_while_a_connection_is_opened_is_told_before_its_model_answers() -> None:
    """The connection was opened under the first agent's settings: a call under them would be refused."""
    agent, billing = two()
    gate = asyncio.Event()

    class SlowModel(OwnModel):
        async def connect(self, options: Any) -> None:
            await super().connect(options)
            if self.connects == 2:
                gate.set()
                await until(lambda: session.current_agent is billing)

    async def slowly(_context: Any) -> None:
        await gate.wait()

    agent.handoffs = [realtime_handoff(billing, on_handoff=slowly)]
    model = SlowModel()
    async with talking_to(model, agent) as (session, _told):
        await session.send_message("Billing please")
        await model.calls("transfer_to_billing", call_id="h1")
        model.sent.clear()
        await session.reconnect()
        kinds = [
            getattr(event, "message", {}).get("type") or event.session_settings["instructions"] for event in model.sent
        ]
        assert kinds[-2:] == ["Bill.", "response.create"]


async def test_the_new_agent_cannot_call_the_first_ones_tool() -> None:
    agent, _billing = two()
    script = [Call("transfer_to_billing", {}, "h1"), Call("refund", {"order": "A1"}, "c1"), "No."]
    async with conversing(agent, script) as (session, server, told):
        await session.send_message("Refund A1")
        said = await server.answered("c1")
        assert "refund" in said
        await told.until("agent_end", 3)
        assert session.pending_approvals == []
    assert ran == []


async def test_the_second_of_two_handoffs_is_ignored_and_the_model_told() -> None:
    billing: RealtimeAgent[Any] = RealtimeAgent("Billing", instructions="Bill.")
    sales: RealtimeAgent[Any] = RealtimeAgent("Sales", instructions="Sell.")
    agent: RealtimeAgent[Any] = RealtimeAgent("Support", handoffs=[billing, realtime_handoff(sales)])
    script = [[Call("transfer_to_billing", {}, "h1"), Call("transfer_to_sales", {}, "h2")], *["Hello."] * 3]
    journal = MemoryJournal()
    async with conversing(agent, script, journal=journal) as (session, server, told):
        await session.send_message("Hi")
        first = await server.answered("h1")
        second = await server.answered("h2")
        assert first != second
        await told.until("agent_end", 2)
        assert session.current_agent is billing
    assert [event.to_agent for event in told.of("handoff")] == [billing]
    assert (await check(journal)).ok


async def test_update_agent_lets_another_agent_go_on() -> None:
    agent, billing = two()
    script = [Call("refund", {"order": "A1"}, "c1"), "It waits.", Call("weather", {}, "w1"), "Sunny.", "Done."]
    async with conversing(agent, script) as (session, server, told):
        await session.send_message("Refund A1")
        await told.until("tool_approval_required")
        await told.until("agent_end", 2)
        await session.update_agent(billing)
        await told.until("handoff")
        await session.send_message("Weather?")
        assert await server.answered("w1") == "sunny"
        await told.until("agent_end", 4)
        await session.approve_tool_call("c1")
        assert await server.answered("c1") == "refunded A1"
        assert server.errors == []
    assert ran == ["weather", "A1"]


async def test_update_agent_takes_an_agent_that_nobody_named_before_and_refuses_others() -> None:
    agent, _billing = two()
    stranger: RealtimeAgent[Any] = RealtimeAgent("Stranger", instructions="Hm.", tools=[weather])
    model = OwnModel()
    async with talking_to(model, agent) as (session, told):
        for wrong in (Agent("Plain"), None, "Billing"):
            with pytest.raises(UserError, match="RealtimeAgent"):
                await session.update_agent(cast("Any", wrong))
        await session.update_agent(stranger)
        await told.until("handoff")
        await model.calls("weather")
        await until(model.outputs)
        assert session.current_agent is stranger
    assert model.outputs() == [("c1", "sunny")]


def only_the_last(given: Any) -> Any:
    """Filter what the next agent sees."""
    return given.clone(input_history=(), pre_handoff_items=())


def test_handoffs_that_have_no_effect_in_a_session_or_in_a_run_are_refused_whenever_they_are_set() -> None:
    first, second = two()
    plain = Agent("Plain")
    for wrong in (plain, handoff(plain), handoff(second, input_filter=only_the_last)):
        with pytest.raises(UserError, match="handoffs of agent"):
            RealtimeAgent("A", handoffs=[cast("Any", wrong)])
        with pytest.raises(UserError, match="handoffs of agent"):
            first.handoffs = [wrong]
    with pytest.raises(UserError, match="is a RealtimeAgent"):
        Agent("B", handoffs=[first])
    for name, value in {"model": "gpt-x", "tool_use_behavior": "stop_on_first_tool", "output_type": int}.items():
        with pytest.raises(AttributeError, match=name):
            setattr(first, name, value)


async def test_a_handoff_with_a_filter_that_is_set_late_hands_nothing_over_and_the_session_goes_on() -> None:
    model = OwnModel()
    _first, second = two()
    late = realtime_handoff(second)
    agent: RealtimeAgent[Any] = RealtimeAgent("Support", tools=[weather], handoffs=[late])
    late.input_filter = only_the_last
    async with talking_to(model, agent) as (session, _told):
        await model.calls("transfer_to_billing", call_id="h1")
        await until(lambda: "h1" in dict(model.outputs()))
        await model.calls("weather", call_id="c1")
        await until(lambda: ("c1", "sunny") in model.outputs())
        assert session.current_agent is agent


async def test_a_handoff_that_a_worker_carries_out_late_leaves_the_conversation_whole() -> None:
    """A filter of its app left the next session a conversation of which the provider's places were others."""
    second: RealtimeAgent[Any] = RealtimeAgent("Billing", tools=[weather])
    agent: RealtimeAgent[Any] = RealtimeAgent("Support", handoffs=[second])
    journal, model = MemoryJournal(), OwnModel()
    asks = Policy(ask(tool="transfer_to_billing"))
    session = await (await RealtimeRunner(agent, model=model, journal=journal, policy=asks).run()).enter()
    await session.send_message("My bill, please.")
    await model.says("One moment.")
    await model.calls("transfer_to_billing", call_id="h1")
    await until(lambda: session.pending_approvals)
    await session.close()
    async with App([agent], journal, asks, run_config=RunConfig(handoff_input_filter=only_the_last)) as app:
        [row] = await app.inbox.list()
        await app.inbox.approve(row, by="ann")

        async def handed_over() -> bool:
            state = await app.state(session.run_id)
            return state.live.run.frames["r"].agent == "Support/Billing"

        await until(handed_over)
    async with talking_to(OwnModel(), agent, journal=journal, policy=asks, resume=session.run_id) as (again, _told):
        assert again.current_agent is second
        assert [item.type for item in again.history] == ["message", "message", "function_call"]
