"""Over the Messages API a run pauses, is saved, decided and resumed: what is sent, and that thoughts survive."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from keyturn import Agent, Runner, RunState, handoff
from keyturn.models.anthropic.model import AnthropicModel
from keyturn.models.base import ModelSettings
from keyturn.models.scripted.items import assistant_message, function_call, reasoning
from keyturn.models.scripted.model import ScriptedModel
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.messages_rules import signature
from keyturn.testing.loopback.server import Fault
from tests.models.errand import ASKED, DONE, PAY, THOUGHT, decided, errand, script
from tests.playing import play, through_text

USER = {"role": "user", "content": [{"type": "text", "text": ASKED}]}
THINKING = {"type": "enabled", "budget_tokens": 2048}


def model_of(server: MessagesServer) -> AnthropicModel:
    return AnthropicModel("claude-test", api_key="k", base_url=server.base_url)


async def test_a_pause_is_decided_and_resumed(streamed: bool) -> None:
    async with MessagesServer(script("toolu_1", "toolu_2")) as server:
        model = model_of(server)
        agent = errand(model, reasoning=THINKING)
        paused = await play(agent, ASKED, streamed)
        done = await play(agent, await decided(agent, paused), streamed)
        await model.close()

    assert done.final_output == DONE
    rest = {
        "model": "claude-test",
        "max_tokens": 16_384,
        "system": "Be brief.",
        "thinking": THINKING,
        "tools": [{"name": "pay", "description": "Pay somebody.", "input_schema": PAY}],
        **({"stream": True} if streamed else {}),
    }
    first, second = (request.json for request in server.requests)
    assert first == {"messages": [USER], **rest}
    said = [
        {"type": "thinking", "thinking": THOUGHT, "signature": signature(THOUGHT, "1.0")},
        {"type": "text", "text": "I need your word."},
        {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"to": "ada", "euros": 5}},
        {"type": "tool_use", "id": "toolu_2", "name": "pay", "input": {"to": "bob", "euros": 7}},
    ]
    told = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "paid ada 5"},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "Not bob."},
    ]
    assert second == {
        "messages": [USER, {"role": "assistant", "content": said}, {"role": "user", "content": told}],
        **rest,
    }


async def test_thinking_survives_a_save_to_the_byte(streamed: bool) -> None:
    """Readable and sealed thoughts, between calls too, go back as they came, and in their place."""
    thoughts = [reasoning(THOUGHT), reasoning(encrypted_content="b\x00yte"), reasoning("")]
    step = [
        thoughts[0],
        assistant_message("First."),
        thoughts[1],
        thoughts[2],
        function_call("pay", {"to": "a", "euros": 1}, call_id="c"),
    ]
    async with MessagesServer([step, "done"]) as server:
        model = model_of(server)
        agent = errand(model)
        paused = await play(agent, ASKED, streamed)
        state = await through_text(agent, paused)
        state.approve(state.get_interruptions()[0])
        await play(agent, state, streamed)
        await model.close()
    sent: list[Any] = server.requests[1].json["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "text", "redacted_thinking", "thinking", "tool_use"]
    assert sent[0] == {"type": "thinking", "thinking": THOUGHT, "signature": signature(THOUGHT, "1.0")}
    assert sent[3] == {"type": "thinking", "thinking": "", "signature": signature("", "1.3")}
    assert sent[2]["data"].startswith("sealed+/")


async def test_a_conversation_goes_on_through_its_input_list(streamed: bool) -> None:
    """Not only a run: what `to_input_list` gives holds all that Claude must have back."""
    async with MessagesServer([*script("c1", "c2"), "And again."]) as server:
        model = model_of(server)
        agent = errand(model, reasoning=THINKING)
        done = await play(agent, await decided(agent, await play(agent, ASKED, streamed)), streamed)
        items = json.loads(json.dumps(done.to_input_list()))
        await play(agent, [*items, {"role": "user", "content": "Again."}], streamed)
        await model.close()
    before, after = server.requests[1].json["messages"], server.requests[2].json["messages"]
    assert after[:3] == before
    assert [message["role"] for message in after] == ["user", "assistant", "user", "assistant", "user"]


async def test_an_edit_is_told_in_the_result_and_the_call_stays_what_it_was() -> None:
    async with MessagesServer(script("c1", "c2")) as server:
        model = model_of(server)
        agent = errand(model)
        paused = await Runner.run(agent, ASKED)
        state = paused.to_state()
        for item in state.get_interruptions():
            state.approve(item, edit={"to": "ada", "euros": 1})
        await Runner.run(agent, state)
        await model.close()
    _, said, told = server.requests[1].json["messages"]
    assert said["content"][2]["input"] == {"to": "ada", "euros": 5}
    assert "paid ada 1" in told["content"][0]["content"]


async def test_a_handoff_takes_the_conversation_along(streamed: bool) -> None:
    """The next agent has no tools, and its provider is told of calls all the same."""
    async with MessagesServer([[function_call("transfer_to_b", call_id="h1")], "I am b."]) as server:
        model = model_of(server)
        second = Agent("b", model=model, instructions="You are b.")
        first = Agent("a", model=model, handoffs=[handoff(second)])
        done = await play(first, "hi", streamed)
        await model.close()
    assert done.final_output == "I am b."
    offered, told = (request.json for request in server.requests)
    assert offered["tools"][0]["name"] == "transfer_to_b"
    assert offered["tools"][0]["input_schema"]["properties"] == {}
    assert told["system"] == "You are b."
    assert told["tools"] == [{"name": "transfer_to_b", "input_schema": {"type": "object"}}]
    assert told["tool_choice"] == {"type": "none"}


async def test_another_models_conversation_is_taken_over() -> None:
    """Its thoughts are not told, its labels are made to fit, and thinking waits for the next turn."""
    calls = [function_call("pay", {"to": "ada", "euros": 5}, call_id="functions.pay:0")]
    scripted = ScriptedModel([[reasoning("mine", encrypted_content="gAAA", item_id="rs_1"), *calls]])
    paused = await Runner.run(errand(scripted), ASKED)
    async with MessagesServer(["done"]) as server:
        model = model_of(server)
        agent = errand(model, reasoning=THINKING)
        state = await RunState.from_string(agent, paused.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        await Runner.run(agent, state)
        await model.close()
    body = server.requests[0].json
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use"]
    assert body["messages"][1]["content"][0]["id"] == "functions_pay_0"
    assert body["messages"][2]["content"][0]["tool_use_id"] == "functions_pay_0"
    assert "thinking" not in body


async def test_each_loop_has_lines_of_its_own() -> None:
    """`run_sync` opens a loop each time; a line of a closed one would be dead."""
    with MessagesServer(["one", "two", "three"]) as server:
        model = model_of(server)
        agent = Agent("a", model=model, model_settings=ModelSettings(retry=0))
        said = [await asyncio.to_thread(Runner.run_sync, agent, "hi") for _ in range(3)]
    assert [result.final_output for result in said] == ["one", "two", "three"]


async def test_a_run_that_is_cancelled_lets_go_of_the_line() -> None:
    async with MessagesServer([Fault("one two three", events=5, stall=True), "again"]) as server:
        model = model_of(server)
        result = Runner.run_streamed(Agent("a", model=model), "hi")
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                result.cancel()
        again = await Runner.run(Agent("a", model=model), "hi")
        await model.close()
    assert again.final_output == "again"
