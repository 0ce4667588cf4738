"""Pause, decide, resume over OpenAI's two wire formats: the exact requests, plain and streamed, in hand and saved."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from keyturn import Agent, MemorySession, Runner, handoff
from keyturn.models.scripted.items import assistant_message, function_call, reasoning
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.testing.loopback.server import Fault
from tests.models.openai.items import SEALED
from tests.models.openai.serving import bodies, both_apis, served
from tests.playing import play, state_of

REPLY = [
    reasoning("Pay both.", item_id="rs_1", encrypted_content=SEALED),
    assistant_message("I shall pay.", item_id="msg_1"),
    function_call("pay", '{"to": "ada"}', call_id="c1", item_id="fc_1"),
    function_call("pay", '{"to":"bob","amount":7}', call_id="c2", item_id="fc_2"),
]

SENT_CALLS = [
    {"role": "user", "content": "Pay ada and bob."},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Pay both."}],
        "encrypted_content": SEALED,
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I shall pay.", "annotations": [], "logprobs": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "pay",
        "arguments": '{"to": "ada"}',
        "status": "completed",
    },
    {
        "type": "function_call",
        "id": "fc_2",
        "call_id": "c2",
        "name": "pay",
        "arguments": '{"to":"bob","amount":7}',
        "status": "completed",
    },
]
RESULTS = [
    {"type": "function_call_output", "call_id": "c1", "output": "paid 5 to ada"},
    {"type": "function_call_output", "call_id": "c2", "output": "not bob"},
]


async def decided(server: Any, payer: Any, streamed: bool, saved: bool, **options: Any) -> tuple[Any, list[Any]]:
    """The scenario: two calls wait, one is approved and one is rejected, and the run goes on."""
    async with served(server) as model:
        agent = Agent("a", instructions="Be brief.", model=model, tools=[payer])
        result = await play(agent, "Pay ada and bob.", streamed, **options)
        assert [item.call_id for item in result.interruptions] == ["c1", "c2"]
        state = await state_of(result, agent, saved)
        first, second = state.get_interruptions()
        state.approve(first)
        state.reject(second, rejection_message="not bob")
        result = await play(agent, state, streamed)
    assert result.final_output == "done"
    return result, bodies(server)


async def test_responses(payer: Any, paid: list[Any], streamed: bool, saved: bool) -> None:
    _, (first, second) = await decided(ResponsesServer([REPLY, "done"]), payer, streamed, saved)
    tool = {
        "type": "function",
        "name": "pay",
        "description": "Pay somebody.",
        "parameters": payer.params_json_schema,
        "strict": True,
    }
    same = {"model": "m", "instructions": "Be brief.", "tools": [tool], **({"stream": True} if streamed else {})}
    assert first == {**same, "input": [{"role": "user", "content": "Pay ada and bob."}]}
    assert second == {**same, "input": [*SENT_CALLS, *RESULTS]}
    assert paid == [("ada", 5)]


async def test_chat_completions(payer: Any, paid: list[Any], streamed: bool, saved: bool) -> None:
    _, (first, second) = await decided(ChatServer([REPLY, "done"]), payer, streamed, saved)
    function = {
        "name": "pay",
        "description": "Pay somebody.",
        "parameters": payer.params_json_schema,
        "strict": True,
    }
    same: dict[str, Any] = {"model": "m", "tools": [{"type": "function", "function": function}]}
    if streamed:
        same |= {"stream": True, "stream_options": {"include_usage": True}}
    opening = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Pay ada and bob."}]
    assert first == {**same, "messages": opening}
    called = {
        "role": "assistant",
        "content": "I shall pay.",
        "reasoning_content": "Pay both.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"to": "ada"}'}},
            {"id": "c2", "type": "function", "function": {"name": "pay", "arguments": '{"to":"bob","amount":7}'}},
        ],
    }
    results = [
        {"role": "tool", "tool_call_id": "c1", "content": "paid 5 to ada"},
        {"role": "tool", "tool_call_id": "c2", "content": "not bob"},
    ]
    assert second == {**same, "messages": [*opening, called, *results]}
    assert paid == [("ada", 5)]


@both_apis
async def test_a_provider_that_fails_after_the_decision(
    api: Any, payer: Any, paid: list[Any], streamed: bool, saved: bool
) -> None:
    """What ran is recorded, and the same question is asked when the run goes on."""
    server = api([[function_call("pay", {"to": "ada"}, call_id="c1")], Fault(status=503), "done"])
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        state = await state_of(await play(agent, "go", streamed), agent, saved)
        state.approve(state.get_interruptions()[0])
        with pytest.raises(openai.InternalServerError) as raised:
            await play(agent, state, streamed)
        again: Any = raised.value
        result = await play(agent, await state_of(again.run_data, agent, saved), streamed)
    assert result.final_output == "done"
    assert paid == [("ada", 5)]
    _, failed, repeated = bodies(server)
    assert failed == repeated


@both_apis
async def test_ten_rounds(api: Any, payer: Any, paid: list[Any], streamed: bool) -> None:
    """Each round is a pause through a saved state, and the server accepts each conversation."""
    server = api([*([function_call("pay", {"to": f"n{n}"}, call_id=f"c{n}")] for n in range(10)), "done"])
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        result = await play(agent, "go", streamed, max_turns=20)
        while result.interruptions:
            state = await state_of(result, agent, True)
            state.approve(state.get_interruptions()[0])
            result = await play(agent, state, streamed)
    assert result.final_output == "done"
    assert [to for to, _ in paid] == [f"n{n}" for n in range(10)]
    assert result.usage.requests == 11
    assert result.usage.total_tokens == 11 * 15


@both_apis
async def test_a_handoff_and_a_nested_agent(api: Any, payer: Any, paid: list[Any], streamed: bool) -> None:
    inner_server = api([[function_call("pay", {"to": "ada"}, call_id="c1")], "paid, says inner"])
    first_server = api(
        [[function_call("transfer_to_second", call_id="h1"), function_call("ask_inner", {"input": "x"})]]
    )
    second_server = api(["done, says second"])
    async with served(inner_server) as one, served(first_server) as two, served(second_server) as three:
        inner = Agent("inner", model=one, tools=[payer])
        second = Agent("second", model=three)
        tool = inner.as_tool("ask_inner", "Asks.")
        first = Agent("first", model=two, tools=[tool], handoffs=[handoff(second)])
        result = await play(first, "go", streamed)
        state = await state_of(result, first, True)
        state.approve(state.get_interruptions()[0])
        result = await play(first, state, streamed)
    assert (result.final_output, result.last_agent.name) == ("done, says second", "second")
    assert paid == [("ada", 5)]
    assert len(inner_server.requests) == 2


@pytest.mark.parametrize("order", [(ResponsesServer, ChatServer), (ChatServer, ResponsesServer)])
async def test_a_conversation_moves_from_one_api_to_the_other(order: Any, payer: Any, streamed: bool) -> None:
    """A handoff to an agent on the other API: each server accepts what the other's model has said."""
    here, there = order
    thought = reasoning("Hm.", item_id="rs_1" if here is ResponsesServer else None)
    first_server = here([[thought, assistant_message("Wait."), function_call("transfer_to_second", call_id="h1")]])
    second_server = there([[function_call("pay", {"to": "ada"}, call_id="c1")], "done"])
    async with served(first_server) as one, served(second_server) as two:
        second = Agent("second", model=two, tools=[payer])
        first = Agent("first", model=one, handoffs=[second])
        result = await play(first, "go", streamed)
        state = await state_of(result, first, True)
        state.approve(state.get_interruptions()[0])
        result = await play(first, state, streamed)
    assert result.final_output == "done"
    assert len(second_server.requests) == 2


@both_apis
async def test_a_new_message_while_a_call_waits(api: Any, payer: Any, paid: list[Any], streamed: bool) -> None:
    """The session has no orphan call, so the provider accepts the next request."""
    session = MemorySession("s")
    server = api([[function_call("pay", {"to": "ada"}, call_id="c1")], "never mind"])
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        assert (await play(agent, "pay ada", streamed, session=session)).interruptions
        assert (await play(agent, "no, do not", streamed, session=session)).final_output == "never mind"
    assert paid == []
    assert "the user moved on" in str(bodies(server)[1])


@both_apis
async def test_the_input_list_of_a_paused_run_is_accepted(api: Any, payer: Any) -> None:
    server = api([[function_call("pay", {"to": "ada"}, call_id="c1")], "done"])
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        paused = await Runner.run(agent, "go")
        result = await Runner.run(agent, [*paused.to_input_list(), {"role": "user", "content": "and now?"}])
    assert result.final_output == "done"


# ---------------------------------------------------------------------------------- conversations that the server keeps


KEPT = [
    {"conversation_id": "conv_1"},
    {"previous_response_id": "resp_0"},
    {"auto_previous_response_id": True},
]


@pytest.mark.parametrize("kept", KEPT, ids=["conversation", "previous", "auto"])
async def test_a_resume_sends_only_what_the_server_has_not_seen(
    payer: Any, paid: list[Any], kept: Any, streamed: bool, saved: bool
) -> None:
    """The server would refuse an item that it has, and a call whose result it lacks."""
    server = ResponsesServer([ModelStep(REPLY, response_id="resp_1"), ModelStep("done", response_id="resp_2")])
    server.stored["resp_0"] = [{"role": "user", "content": "before"}]
    _, (first, second) = await decided(server, payer, streamed, saved, **kept)
    assert first["input"] == [{"role": "user", "content": "Pay ada and bob."}]
    assert second["input"] == RESULTS
    names = ("conversation", "previous_response_id")
    named = [{name: body[name] for name in names if name in body} for body in (first, second)]
    if "conversation_id" in kept:
        assert named == [{"conversation": "conv_1"}] * 2
        assert len(server.conversations["conv_1"]) == 1 + 4 + 2 + 1
    else:
        before = {"previous_response_id": "resp_0"} if "previous_response_id" in kept else {}
        assert named == [before, {"previous_response_id": "resp_1"}]
    assert second["instructions"] == "Be brief."
    assert paid == [("ada", 5)]


@pytest.mark.parametrize("kept", KEPT, ids=["conversation", "previous", "auto"])
async def test_rounds_of_a_conversation_that_the_server_keeps(payer: Any, kept: Any, streamed: bool) -> None:
    steps = [[function_call("pay", {"to": f"n{n}"}, call_id=f"c{n}")] for n in range(4)]
    server = ResponsesServer([*steps, "done"])
    server.stored["resp_0"] = []
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        result = await play(agent, "go", streamed, **kept)
        while result.interruptions:
            state = await state_of(result, agent, True)
            state.approve(state.get_interruptions()[0])
            result = await play(agent, state, streamed)
    assert result.final_output == "done"
    assert [len(body["input"]) for body in bodies(server)] == [1] * 5


@pytest.mark.parametrize("kept", KEPT, ids=["conversation", "previous", "auto"])
async def test_a_handoff_in_a_conversation_that_the_server_keeps(payer: Any, kept: Any, streamed: bool) -> None:
    server = ResponsesServer(
        [[function_call("transfer_to_second", call_id="h1")], [function_call("pay", {"to": "a"}, call_id="c1")], "done"]
    )
    server.stored["resp_0"] = []
    async with served(server) as model:
        second = Agent("second", model=model, tools=[payer])
        first = Agent("first", model=model, handoffs=[second])
        result = await play(first, "go", streamed, **kept)
        state = await state_of(result, first, True)
        state.approve(state.get_interruptions()[0])
        result = await play(first, state, streamed)
    assert result.final_output == "done"
    sent = [[item.get("call_id", item.get("role")) for item in body["input"]] for body in bodies(server)]
    assert sent == [["user"], ["h1"], ["c1"]]


async def test_a_dropped_stream_in_a_conversation_is_sent_again_whole(payer: Any, streamed: bool) -> None:
    fault = Fault("never", events=3) if streamed else Fault("never", half=True)
    server = ResponsesServer([[function_call("pay", {"to": "ada"}, call_id="c1")], fault, "done"])
    server.stored["resp_0"] = []
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        state = await state_of(await play(agent, "go", streamed, previous_response_id="resp_0"), agent, True)
        state.approve(state.get_interruptions()[0])
        with pytest.raises(openai.APIConnectionError) as raised:
            await play(agent, state, streamed)
        failed: Any = raised.value
        result = await play(agent, await state_of(failed.run_data, agent, True), streamed)
    assert result.final_output == "done"
    _, dropped, repeated = bodies(server)
    assert dropped == repeated


async def test_a_model_that_keeps_nothing_says_so(payer: Any) -> None:
    from keyturn import UserError

    async with served(ChatServer([])) as model:
        for kept in KEPT[:2]:
            with pytest.raises(UserError, match="keeps nothing"):
                await Runner.run(Agent("a", model=model), "go", **kept)


async def test_one_model_serves_several_runs() -> None:
    async with served(ResponsesServer(lambda request: request.json["input"][0]["content"])) as model:
        results = [await Runner.run(Agent("a", model=model), text) for text in ("one", "two")]
    assert [result.final_output for result in results] == ["one", "two"]
