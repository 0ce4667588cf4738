"""Each turn of a realtime model is judged by the tools, servers and guardrails of its agent, until it is recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import GuardrailFunctionOutput, HostedMCPTool, MemoryJournal, function_tool, output_guardrail
from keyturn.audit.checker import check
from keyturn.realtime import RealtimeAgent
from keyturn.realtime import model_events as me
from keyturn.realtime.items import AssistantAudio, AssistantMessageItem
from keyturn.realtime.openai_reading import ServerReader
from tests.realtime.attending import OwnModel, Reader, talking_to
from tests.realtime.desk import ran, weather
from tests.waiting import turns_of_the_loop, until

REQUEST: dict[str, Any] = {"id": "mcpr_1", "server_label": "docs", "name": "wipe", "arguments": "{}"}


def guarded(looked: list[str]) -> RealtimeAgent[Any]:
    """An agent that must not say SECRET, and hands over to one that may."""

    @output_guardrail
    def no_secret(_context: Any, agent: Any, said: Any) -> GuardrailFunctionOutput:
        looked.append(agent.name)
        return GuardrailFunctionOutput(None, "SECRET" in said)

    return RealtimeAgent("A", handoffs=[RealtimeAgent("B")], output_guardrails=[no_secret])


def docs(url: str) -> HostedMCPTool:
    return HostedMCPTool({"type": "mcp", "server_label": "docs", "server_url": url})


def two_servers() -> RealtimeAgent[Any]:
    """Two agents, each with a server `docs` of its own."""
    second = RealtimeAgent("B", tools=[docs("https://harmless.example/mcp")])
    return RealtimeAgent("A", handoffs=[second], tools=[docs("https://production.example/mcp")])


def two_pays() -> tuple[RealtimeAgent[Any], RealtimeAgent[Any]]:
    """Two agents with a tool of the same name, which asks where the first one has it."""

    @function_tool(name_override="pay", needs_approval=True)
    def asks() -> str:
        ran.append("asks")
        return "paid"

    @function_tool(name_override="pay")
    def pays() -> str:
        ran.append("pays")
        return "paid"

    second: RealtimeAgent[Any] = RealtimeAgent("B", tools=[pays])
    return RealtimeAgent("A", tools=[asks], handoffs=[second]), second


def started(response: str | None = "r1") -> me.RealtimeModelTurnStartedEvent:
    return me.RealtimeModelTurnStartedEvent(response_id=response)


def ended(response: str | None = "r1") -> me.RealtimeModelTurnEndedEvent:
    return me.RealtimeModelTurnEndedEvent(response_id=response)


def said(text: str, item_id: str = "m1") -> me.RealtimeModelItemUpdatedEvent:
    part = AssistantAudio(transcript=text)
    return me.RealtimeModelItemUpdatedEvent(AssistantMessageItem(item_id=item_id, status="completed", content=[part]))


async def handed_over(model: OwnModel, told: Reader) -> None:
    """Hand over to B, and wait until the connection has its settings."""
    await model.calls("transfer_to_b", call_id="h1")
    await told.until("handoff")
    await until(lambda: "SessionUpdate" in str(model.sent) and "h1" in dict(model.outputs()))


def answers(model: OwnModel) -> list[tuple[str, bool]]:
    """The answers to requests of the provider's own, as they were sent."""
    items = [each.message.get("other_data", {}).get("item", {}) for each in model.sent if hasattr(each, "message")]
    return [(i["approval_request_id"], i["approve"]) for i in items if i.get("type") == "mcp_approval_response"]


async def test_guardrails_of_the_agent_whose_turn_it_is_look_at_all_that_is_said_in_it() -> None:
    looked: list[str] = []
    model = OwnModel()
    async with talking_to(model, guarded(looked)) as (_session, told):
        await model.tell(started())
        await handed_over(model, told)
        await model.tell(said("I hand you over. SECRET is 4242"), ended())
        tripped = await told.until("guardrail_tripped")
        assert tripped.message == "I hand you over. SECRET is 4242"
        await model.says("SECRET is fine here", "m2", "r2")
        await told.until("agent_end", 2)
        await turns_of_the_loop(100)
    assert looked == ["A"]
    assert [event.agent.name for event in told.of("agent_end")] == ["A", "B"]
    assert [event.agent.name for event in told.of("agent_start")] == ["A", "B"]


async def test_words_that_come_after_their_turn_are_looked_at_by_the_agents_of_both_turns() -> None:
    looked: list[str] = []
    model = OwnModel()
    async with talking_to(model, guarded(looked)) as (_session, told):
        await model.tell(started())
        await handed_over(model, told)
        await model.tell(ended(), said("SECRET"), started("r2"), ended("r2"))
        await told.until("guardrail_tripped")
    assert looked == ["A"]


@pytest.mark.parametrize("response", [None, "r1"], ids=["without ids", "with one id for all"])
async def test_a_guardrail_trips_in_each_turn_whatever_the_model_calls_it(response: str | None) -> None:
    model = OwnModel()
    async with talking_to(model, guarded([])) as (_session, told):
        for number in range(1, 4):
            text = f"SECRET {number}"
            await model.tell(started(response), said(text, f"m{number}"), ended(response))
            assert (await told.until("guardrail_tripped", number)).message == text


def recorded(session: Any) -> list[str]:
    """What the log has of the model's words."""
    items = session.opened().run.frames["r"].items
    return [item["content"][0]["text"] for item in items if item.get("role") == "assistant"]


async def test_what_is_said_under_an_id_that_was_used_before_is_looked_at_and_recorded() -> None:
    """A model of one's own that calls each message alike was looked at in its first one alone."""
    journal, model = MemoryJournal(), OwnModel()
    async with talking_to(model, guarded([]), journal=journal) as (session, told):
        await model.says("All is well.", "m1", "r1")
        await model.says("SECRET", "m1", "r2")
        assert (await told.until("guardrail_tripped")).message == "SECRET"
        await model.tell(started("r3"), said("SECRET as ever"), ended("r3"))
        await told.until("guardrail_tripped", 2)
        await until(lambda: len(recorded(session)) == 2)
        assert recorded(session) == ["All is well.", "SECRET"]


async def test_a_model_that_tells_of_no_turns_is_stopped_at_each_message() -> None:
    model = OwnModel()
    async with talking_to(model, guarded([]), config={"guardrails_settings": {"debounce_text_length": 1}}) as (
        _s,
        told,
    ):
        for number in range(1, 3):
            await model.tell(me.RealtimeModelTranscriptDeltaEvent(f"m{number}", "SECRET", ""))
            await told.until("guardrail_tripped", number)


async def test_a_request_of_an_agent_that_has_handed_over_is_rejected_and_asked_of_no_one() -> None:
    model, journal = OwnModel(), MemoryJournal()
    async with talking_to(model, two_servers(), journal=journal) as (session, told):
        await model.tell(started())
        await handed_over(model, told)
        await model.tell(me.RealtimeModelApprovalRequestEvent(dict(REQUEST)), ended())
        await until(lambda: answers(model))
        assert session.pending_approvals == []
        assert "which has handed over" in str(told.errors())
        await model.tell(started("r2"), me.RealtimeModelApprovalRequestEvent({**REQUEST, "id": "mcpr_2"}))
        asked = await told.until("tool_approval_required")
        assert "harmless" in str(asked.item.preview)
        await session.approve_tool_call(asked.item)
        await until(lambda: len(answers(model)) == 2)
    assert answers(model) == [("mcpr_1", False), ("mcpr_2", True)]
    assert (await check(journal)).ok


async def test_a_request_that_is_told_twice_is_one_request_and_answered_once() -> None:
    model = OwnModel()
    async with talking_to(model, two_servers()) as (session, told):
        await model.tell(me.RealtimeModelApprovalRequestEvent(dict(REQUEST)))
        asked = await told.until("tool_approval_required")
        await model.tell(me.RealtimeModelApprovalRequestEvent({**REQUEST, "arguments": '{"all": true}'}))
        await told.until("error")
        assert len(session.pending_approvals) == 1
        await session.reject_tool_call(asked.item)
        await until(lambda: answers(model))
        await model.tell(me.RealtimeModelApprovalRequestEvent(dict(REQUEST)))
        await told.until("error", 2)
        assert session.pending_approvals == []
    assert answers(model) == [("mcpr_1", False)]
    assert "told the request 'mcpr_1' again" in str(told.errors())


async def test_an_approval_of_a_request_of_an_earlier_connection_is_none_of_another_with_its_id() -> None:
    model = OwnModel()
    async with talking_to(model, two_servers()) as (session, told):
        await model.tell(me.RealtimeModelApprovalRequestEvent(dict(REQUEST)))
        asked = await told.until("tool_approval_required")
        await session.reconnect()
        await model.tell(me.RealtimeModelApprovalRequestEvent({**REQUEST, "arguments": '{"all": true}'}))
        await until(lambda: answers(model))
        await session.approve_tool_call(asked.item)
        await until(lambda: "it did not run" in str(model.sent))
    assert answers(model) == [("mcpr_1", False)]
    assert "another call with that id is open" in str(told.errors())


@pytest.mark.parametrize("shared", [True, False], ids=["the next has that server", "the next has another"])
async def test_an_approval_after_a_handoff_reaches_the_server_that_was_shown_or_none(shared: bool) -> None:
    agent = two_servers()
    if shared:
        agent.handoffs[0].tools = agent.tools
    model = OwnModel()
    async with talking_to(model, agent) as (session, told):
        await model.tell(started(), me.RealtimeModelApprovalRequestEvent(dict(REQUEST)))
        asked = await told.until("tool_approval_required")
        await handed_over(model, told)
        await session.approve_tool_call(asked.item)
        await until(lambda: answers(model))
    assert answers(model) == [("mcpr_1", shared)]
    assert ("which does not have that server" in str(model.sent)) is not shared


@pytest.mark.each
@pytest.mark.parametrize("reconnects", [False, True])
async def test_a_call_that_is_read_while_another_agent_takes_over_is_not_taken(reconnects: bool) -> None:
    """The next agent's tool of that name does not run, and a later connection has no result of a call it never made."""
    moved, looked = asyncio.Event(), asyncio.Event()
    moved.set()

    async def enabled(_context: Any, _agent: Any) -> bool:
        looked.set()
        await moved.wait()
        return True

    agent, second = two_pays()
    agent.tools[0].is_enabled = enabled
    model, journal = OwnModel(), MemoryJournal()
    async with talking_to(model, agent, journal=journal) as (session, told):
        moved.clear()
        looked.clear()
        await model.calls("pay", "{}", "p1")
        await looked.wait()
        await session.update_agent(second)
        await told.until("handoff")
        if reconnects:
            await session.reconnect()
        moved.set()
        await told.until("error")
        await turns_of_the_loop()
        words = "The call was not taken: another agent is at work now. Call again if it is still needed."
        assert model.outputs() == ([] if reconnects else [("p1", words)])
        assert ran == []
        await model.calls("pay", "{}", "p2")
        await until(lambda: ("p2", "paid") in model.outputs())
    assert ran == ["pays"]
    assert (await check(journal)).ok


async def test_a_call_of_an_agent_that_has_handed_over_is_not_taken_though_the_next_has_that_tool() -> None:
    """What a policy, a grant or a rejection says of a call depends on the agent."""
    second: RealtimeAgent[Any] = RealtimeAgent("B", tools=[weather])
    model = OwnModel()
    async with talking_to(model, RealtimeAgent("A", tools=[weather], handoffs=[second])) as (_session, told):
        await model.tell(started())
        await handed_over(model, told)
        await model.calls("weather", call_id="c1")
        await until(lambda: "c1" in dict(model.outputs()))
        assert ran == []
        await model.tell(ended(), started("r2"))
        await model.calls("weather", call_id="c2")
        await until(lambda: ("c2", "sunny") in model.outputs())


@pytest.mark.each
@pytest.mark.parametrize("between", [started("r1"), ended("r0")], ids=["it is told twice", "another one ends"])
async def test_a_turn_stays_its_agents_until_it_ends(between: Any) -> None:
    model = OwnModel()
    async with talking_to(model, two_pays()[0]) as (_session, told):
        await model.tell(started("r0"), started("r1"))
        await handed_over(model, told)
        await model.tell(between)
        await model.calls("pay", call_id="c1")
        await until(lambda: "c1" in dict(model.outputs()))
        await model.tell(started("r2"), me.RealtimeModelToolCallEvent("pay", "c2", "{}", response_id="r1"))
        await until(lambda: "c2" in dict(model.outputs()))
        assert ran == []
        await model.calls("pay", call_id="c3")
        await until(lambda: ("c3", "paid") in model.outputs())
    assert ran == ["pays"]


async def test_a_turn_ends_with_its_connection() -> None:
    agent, second = two_pays()
    model = OwnModel()
    async with talking_to(model, agent) as (session, _told):
        await model.tell(started())
        await session.update_agent(second)
        await session.reconnect()
        await model.calls("pay")
        await until(lambda: ("c1", "paid") in model.outputs())


async def test_a_response_that_began_before_the_settings_of_the_next_agent_were_in_force_is_of_the_one_before() -> None:
    model = OwnModel()
    async with talking_to(model, two_pays()[0]) as (_session, told):
        await handed_over(model, told)
        await model.tell(me.RealtimeModelTurnStartedEvent(response_id="r1", settings_pending=True))
        await model.calls("pay", call_id="c1")
        await until(lambda: "c1" in dict(model.outputs()))
        assert ran == []
        await model.tell(ended(), started("r2"))
        await model.calls("pay", call_id="c2")
        await until(lambda: ("c2", "paid") in model.outputs())


class Settled:
    """A connection's reader, told what its server says of settings."""

    def __init__(self) -> None:
        self.reader = ServerReader()

    def sends(self, *, agents: bool = True) -> str:
        return self.reader.settings.stamped({"type": "session.update", "session": {}}, agents=agents)["event_id"]

    def confirms(self) -> None:
        assert self.reader.read({"type": "session.updated", "session": {}}) == []

    def refuses(self, update: str) -> None:
        self.reader.read({"type": "error", "error": {"message": "no", "event_id": update}})

    def pending(self) -> bool:
        [told] = self.reader.read({"type": "response.created", "response": {"id": "r"}})
        assert isinstance(told, me.RealtimeModelTurnStartedEvent)
        return told.settings_pending


@pytest.mark.parametrize("confirms", [True, False], ids=["it confirms settings", "it never does"])
def test_settings_are_pending_until_a_server_that_confirms_them_has_done_so(confirms: bool) -> None:
    line = Settled()
    line.sends()
    if confirms:
        line.confirms()
    assert not line.pending()
    line.sends()
    assert line.pending() is confirms
    if confirms:
        line.confirms()
    assert not line.pending()


def test_the_settings_of_an_agent_are_confirmed_by_no_answer_to_another_update() -> None:
    """A voice that a program sets just before a handoff: the answer to it came first, and was taken for the agent's."""
    line = Settled()
    line.sends()
    line.confirms()
    line.sends(agents=False)
    assert not line.pending()
    line.sends()
    line.confirms()
    assert line.pending()
    line.confirms()
    assert not line.pending()


def test_settings_that_are_refused_leave_those_of_before_in_force() -> None:
    line = Settled()
    line.sends()
    line.confirms()
    voice = line.sends(agents=False)
    line.sends()
    line.refuses(voice)
    line.confirms()
    assert not line.pending()
    line.refuses(line.sends())
    line.sends(agents=False)
    line.confirms()
    assert line.pending()
    line.sends()
    line.confirms()
    assert not line.pending()


def test_calls_and_requests_name_the_response_that_they_are_of() -> None:
    call = {"type": "function_call", "id": "i1", "call_id": "c1", "name": "pay", "arguments": "{}"}
    late = {"type": "function_call", "id": "i2", "call_id": "c2", "name": "pay", "arguments": "{}"}
    request = {**REQUEST, "type": "mcp_approval_request"}
    reader = ServerReader()
    events: list[Any] = [
        {"type": "response.output_item.done", "response_id": "r1", "output_index": 0, "item": call},
        {"type": "response.output_item.done", "response_id": "r1", "output_index": 1, "item": request},
        {"type": "response.done", "response": {"id": "r2", "status": "completed", "output": [late]}},
    ]
    told: list[Any] = [each for event in events for each in reader.read(event)]
    told = [each for each in told if hasattr(each, "response_id")]
    assert [(each.type, each.response_id) for each in told] == [
        ("function_call", "r1"),
        ("mcp_approval_request", "r1"),
        ("function_call", "r2"),
        ("turn_ended", "r2"),
    ]
