"""Over Gemini's wire format a run pauses, is saved, decided and resumed: what is sent, and that signatures survive."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from keyturn import Agent, Runner, RunState, handoff
from keyturn.engine.run.log_cache import forget
from keyturn.models.base import ModelSettings
from keyturn.models.google.model import GoogleModel
from keyturn.models.scripted.items import assistant_message, function_call
from keyturn.models.scripted.model import ScriptedModel
from keyturn.testing import approve_all
from keyturn.testing.loopback.gemini_rules import signature
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.server import Fault
from tests.models.errand import ASKED, DONE, PAY, decided, errand, script
from tests.playing import play

USER = {"role": "user", "parts": [{"text": ASKED}]}


def model_of(server: GeminiServer, name: str = "gemini-3-test") -> GoogleModel:
    return GoogleModel(name, api_key="k", base_url=server.base_url)


def data(text: str) -> bytes:
    """What a base64 text says, in either of its alphabets."""
    return base64.b64decode(text.replace("-", "+").replace("_", "/"))


async def test_a_pause_is_decided_and_resumed(streamed: bool) -> None:
    """Gemini gives no ids: the labels are ours, in the run, and are not sent back."""
    async with GeminiServer(script("", "")) as server:
        model = model_of(server)
        agent = errand(model, reasoning={"effort": "low", "summary": "auto"})
        paused = await play(agent, ASKED, streamed)
        assert [item.call_id for item in paused.interruptions] == ["gemini_call_1", "gemini_call_2"]
        done = await play(agent, await decided(agent, paused), streamed)
        await model.close()

    assert done.final_output == DONE
    rest = {
        "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
        "tools": [
            {"functionDeclarations": [{"name": "pay", "description": "Pay somebody.", "parameters_json_schema": PAY}]}
        ],
        "generationConfig": {"thinkingConfig": {"include_thoughts": True, "thinking_level": "LOW"}},
    }
    first, second = (request.json for request in server.requests)
    assert first == {"contents": [USER], **rest}
    call = {"functionCall": {"name": "pay", "args": {"to": "ada", "euros": 5}}}
    sealed = second["contents"][1]["parts"][1].pop("thoughtSignature")
    assert data(sealed) == data(signature(call, "1"))
    said = [
        {"text": "I need your word."},
        call,
        {"functionCall": {"name": "pay", "args": {"to": "bob", "euros": 7}}},
    ]
    told = [
        {"functionResponse": {"name": "pay", "response": {"output": "paid ada 5"}}},
        {"functionResponse": {"name": "pay", "response": {"output": "Not bob."}}},
    ]
    assert second == {
        "contents": [USER, {"role": "model", "parts": said}, {"role": "user", "parts": told}],
        **rest,
    }
    way = "streamGenerateContent" if streamed else "generateContent"
    assert {request.path for request in server.requests} == {f"/v1/models/gemini-3-test:{way}"}


async def test_ids_and_signatures_survive_a_save_to_the_byte(streamed: bool) -> None:
    step = [assistant_message("One."), function_call("pay", {"to": "a", "euros": 1}, call_id="fc-9/x")]
    async with GeminiServer([step, "done"]) as server:
        model = model_of(server)
        agent = errand(model)
        paused = await play(agent, ASKED, streamed)
        text = paused.to_state().to_string()
        call = {"functionCall": {"name": "pay", "args": {"to": "a", "euros": 1}, "id": "fc-9/x"}}
        assert signature(call, "1") in json.dumps(paused.to_input_list())
        forget()
        state = await RunState.from_string(agent, text)
        state.approve(state.get_interruptions()[0])
        await play(agent, state, streamed)
        await model.close()
    _, said, told = server.requests[1].json["contents"]
    assert data(said["parts"][1].pop("thoughtSignature")) == data(signature(call, "1"))
    assert said["parts"][1] == call
    assert told["parts"][0]["functionResponse"]["id"] == "fc-9/x"


async def test_a_conversation_goes_on_through_its_input_list(streamed: bool) -> None:
    """A signed text goes back as the part it was, also where its signature came on an empty one."""
    async with GeminiServer([*script("", ""), "And again.", "And more."]) as server:
        model = model_of(server)
        agent = errand(model)
        done = await play(agent, await decided(agent, await play(agent, ASKED, streamed)), streamed)
        for word in ("Again.", "More."):
            items = json.loads(json.dumps(done.to_input_list()))
            done = await play(agent, [*items, {"role": "user", "content": word}], streamed)
        await model.close()
    bodies = [request.json["contents"] for request in server.requests]
    assert bodies[2][: len(bodies[1])] == bodies[1]
    assert bodies[3][: len(bodies[2])] == bodies[2]
    last = bodies[2][3]["parts"]
    assert "".join(part["text"] for part in last) == DONE
    assert ["thoughtSignature" in part for part in last] == ([False, True] if streamed else [True])


async def test_a_handoff_takes_the_conversation_along(streamed: bool) -> None:
    async with GeminiServer([[function_call("transfer_to_b", call_id="")], "I am b."]) as server:
        model = model_of(server)
        second = Agent("b", model=model, instructions="You are b.")
        first = Agent("a", model=model, handoffs=[handoff(second)])
        done = await play(first, "hi", streamed)
        await model.close()
    assert done.final_output == "I am b."
    assert server.requests[1].json["systemInstruction"]["parts"] == [{"text": "You are b."}]
    assert "tools" not in server.requests[1].json


async def test_another_models_conversation_is_taken_over() -> None:
    """Gemini 3 wants a signature on the first call of a step, and says itself what stands for one it never gave."""
    calls = [function_call("pay", {"to": to, "euros": 5}, call_id=to) for to in ("ada", "bob")]
    paused = await Runner.run(errand(ScriptedModel([calls])), ASKED)
    async with GeminiServer(["done"]) as server:
        model = model_of(server)
        agent = errand(model)
        state = await RunState.from_string(agent, paused.to_state().to_string())
        approve_all(state)
        await Runner.run(agent, state)
        await model.close()
    said: list[Any] = server.requests[0].json["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in said] == ["skip_thought_signature_validator", None]
    assert all("id" not in part["functionCall"] for part in said)


async def test_each_loop_has_lines_of_its_own() -> None:
    with GeminiServer(["one", "two", "three"]) as server:
        agent = Agent("a", model=model_of(server), model_settings=ModelSettings(retry=0))
        said = [await asyncio.to_thread(Runner.run_sync, agent, "hi") for _ in range(3)]
    assert [result.final_output for result in said] == ["one", "two", "three"]


async def test_a_run_that_is_cancelled_lets_go_of_the_line() -> None:
    async with GeminiServer([Fault("one two three", events=2, stall=True), "again"]) as server:
        model = model_of(server)
        result = Runner.run_streamed(Agent("a", model=model), "hi")
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                result.cancel()
        again = await Runner.run(Agent("a", model=model), "hi")
        await model.close()
    assert again.final_output == "again"
