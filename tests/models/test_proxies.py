"""What stands between a model and its provider answers in its place, or cuts it off: an error, and the run goes on.

In all four APIs, plain and streamed: a proxy's page with a good status, an error in a good answer, JSON where a stream
was asked for, a key that is rejected in the middle of a run, and streams that end after any number of bytes.
"""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, ModelBehaviorError, ModelSettings, RunState, function_tool
from keyturn.models.scripted.items import assistant_message, function_call
from keyturn.testing.loopback.server import Fault, HttpReply, HttpRequest
from tests.effort import AT_LENGTH
from tests.models.test_crossing import MEMBERS, model_of
from tests.playing import approved, play

members = pytest.mark.parametrize("member", MEMBERS.values(), ids=list(MEMBERS))

CLIENTS = ("openai", "anthropic", "google.genai.errors")
# How far apart the places are at which a stream is cut: at length it is cut at every byte.
STEP = 1 if AT_LENGTH else 111

PAGE = b"<!doctype html><title>502</title><h1>The upstream server is busy</h1>"
ANSWERS: dict[str, HttpReply] = {
    "a page": HttpReply(200, {"content-type": "text/html"}, PAGE),
    "a page called JSON": HttpReply(200, {"content-type": "application/json"}, PAGE),
    "a page called a stream": HttpReply(200, {"content-type": "text/event-stream"}, PAGE),
    "nothing": HttpReply(200, {"content-type": "application/json"}, b""),
    "an error": HttpReply(200, {"content-type": "application/json"}, b'{"error": {"message": "busy", "code": 503}}'),
    "an error's text": HttpReply(200, {"content-type": "application/json"}, b'{"error": "busy"}'),
    "a detail": HttpReply(200, {"content-type": "application/json"}, b'{"detail": "not found"}'),
    "an error in a stream": HttpReply(
        200, {"content-type": "text/event-stream"}, b'data: {"error": {"message": "busy", "code": 503}}\n\n'
    ),
}


def instead(member: Any, script: Any, first: Any) -> Any:
    """A server whose first answer is made another one."""

    class Proxy(member[0]):
        def reply(self, request: HttpRequest, step: Any) -> HttpReply:
            reply = super().reply(request, step)
            return first(reply) if self.answered == 1 else reply

    return Proxy(script)


async def came(agent: Agent[Any], streamed: bool) -> Any:
    """The result of a run, or the error of ours or of the provider's client that stopped it."""
    try:
        return await play(agent, "go", streamed)
    except ModelBehaviorError as error:
        return error
    except Exception as error:
        if not type(error).__module__.startswith(CLIENTS):
            raise
        return error


@members
async def test_an_answer_in_its_place_is_an_error_and_the_run_goes_on(member: Any, streamed: bool) -> None:
    for name, answer in ANSWERS.items():
        async with instead(member, ["lost", "done"], lambda _reply, answer=answer: answer) as server:
            agent = Agent("a", model=model_of(member, server), model_settings=ModelSettings(retry=0))
            error: Any = await came(agent, streamed)
            assert isinstance(error, Exception), f"{name} was taken for a reply"
            assert "<h1>" not in str(error), f"{name}: a page stands in the error"
            result = await play(agent, error.run_data.to_state(), streamed)
            assert result.final_output == "done", name
            await agent.model.close()


@function_tool
def look(what: str) -> str:
    """Look at something."""
    return f"{what} seen"


@pytest.mark.trial
@members
async def test_a_key_that_expires_in_the_middle_of_a_run_stops_it_and_nothing_is_done_twice(
    member: Any, payer: Any, paid: list[Any], streamed: bool
) -> None:
    """The call was approved and ran before the key was rejected: over a saved state, the run goes on behind it."""
    call = function_call("pay", {"to": "ada"}, call_id="c1")
    async with member[0]([[call], Fault(status=401), "done"]) as server:
        agent = Agent("a", model=model_of(member, server), tools=[payer])
        paused = await play(agent, "go", streamed)
        with pytest.raises(Exception, match="401") as raised:
            await play(agent, await approved(paused, agent, saved=True), streamed)
        assert type(raised.value).__module__.startswith(CLIENTS)
        assert server.answered == 2, "a rejected key is not tried again"
        failed: Any = raised.value
        state = await RunState.from_string(agent, failed.run_data.to_state().to_string())
        assert state.get_interruptions() == []
        result = await play(agent, state, streamed)
        await agent.model.close()
    assert (result.final_output, paid) == ("done", [("ada", 5)])
    assert server.requests[1].body == server.requests[2].body


@pytest.mark.timeout(600)
@pytest.mark.sweep
@members
async def test_a_stream_that_is_cut_anywhere_is_whole_or_an_error(member: Any) -> None:
    calls = [assistant_message("one two three"), function_call("look", {"what": "sky"}, call_id="c1")]
    size, cut = STEP, 0
    while cut < size + STEP:  # the last time nothing is cut off
        kept: list[int] = []

        def cut_off(reply: HttpReply, at: int = cut, kept: list[int] = kept) -> HttpReply:
            whole = b"".join(reply.parts or ())
            kept.append(len(whole))
            return HttpReply(reply.status, reply.headers, parts=(whole[:at],))

        async with instead(member, [calls, "done", "done"], cut_off) as server:
            agent = Agent("a", model=model_of(member, server), tools=[look], model_settings=ModelSettings(retry=0))
            result: Any = await came(agent, streamed=True)
            if not isinstance(result, Exception):
                items = [item["type"] for item in result.to_input_list() if item.get("type")]
                assert items.count("function_call") == items.count("function_call_output") == 1, cut
            await agent.model.close()
        assert kept, f"no reply was sent: {result!r}"
        size, cut = kept[0], cut + STEP
    assert not isinstance(result, Exception), "the whole stream is a reply"
