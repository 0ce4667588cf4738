"""Over every wire format: half a reply is never recorded, and a recorded one is never asked for again."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from keyturn import Agent, ModelSettings, Runner, RunState
from keyturn.core import events as ev
from keyturn.engine.run.log_cache import forget
from keyturn.models.scripted.items import assistant_message, function_call
from keyturn.testing.loopback.server import Fault
from tests.models.errand import without
from tests.models.test_crossing import MEMBERS, model_of
from tests.playing import play, read

members = pytest.mark.parametrize("member", MEMBERS.values(), ids=list(MEMBERS))

CALL = [assistant_message("I pay now, and tell you of it."), function_call("pay", {"to": "ada"}, call_id="c1")]
DOWN = Fault(status=503, headers={"retry-after-ms": "1", "retry-after": "0"})
WAYS = ("stream", "stream_options")


def replies(state: RunState[Any]) -> list[Any]:
    """What the journal holds of what a model answered."""
    return [event for step in state.live.log.steps for event in step.events if isinstance(event, ev.ReplyRecorded)]


def conversation(request: Any) -> Any:
    """What was asked, however the answer was to come."""
    return request.path.rpartition("/")[0], without(request.json, *WAYS)


@members
async def test_a_recorded_reply_is_never_asked_for_again(
    member: Any, payer: Any, paid: list[Any], streamed: bool
) -> None:
    """The provider is down before each reply and after the last retry; what came is used once."""
    async with member[0]([DOWN, CALL, DOWN, DOWN, DOWN, "done"]) as server:
        model = model_of(member, server)
        agent = Agent("a", model=model, tools=[payer], model_settings=ModelSettings(retry=1))
        state = (await play(agent, "go", streamed)).to_state()
        [item] = state.get_interruptions()
        state.approve(item)
        with pytest.raises(Exception, match=r"503|scripted") as raised:
            await play(agent, state, streamed)
        failed: Any = raised.value
        text = failed.run_data.to_state().to_string()
        forget()
        done = await play(agent, await RunState.from_string(agent, text), streamed)
        await model.close()
    assert (done.final_output, paid) == ("done", [("ada", 5)])
    assert len(replies(done.to_state())) == 2
    assert done.usage.requests == 2
    asked = [conversation(request) for request in server.requests]
    assert asked[0] == asked[1]
    assert asked[1] != asked[2]
    assert asked[2:] == [asked[2]] * 4


@members
@pytest.mark.parametrize("cut", [{"events": 1}, {"events": 3}, {"half": True}], ids=str)
async def test_a_dropped_stream_leaves_nothing(member: Any, cut: Any, payer: Any, paid: list[Any]) -> None:
    """What a listener heard of it is not in the run: no reply, no call, no word; the same is asked again."""
    async with member[0]([Fault(CALL, **cut), CALL, "done"]) as server:
        model = model_of(member, server)
        agent = Agent("a", model=model, tools=[payer], model_settings=ModelSettings(retry=0))
        stream = Runner.run_streamed(agent, "go")
        with pytest.raises(Exception):  # noqa: B017, PT011  # each SDK has its own, and ours says it of an early end
            await read(stream)
        broken = stream.to_state()
        assert (replies(broken), stream.interruptions, stream.new_items) == ([], [], [])
        assert "I pay" not in broken.to_string()
        state = (await play(agent, broken, True)).to_state()
        state.approve(state.get_interruptions()[0])
        done = await play(agent, state, True)
        await model.close()
    assert (done.final_output, paid) == ("done", [("ada", 5)])
    assert conversation(server.requests[0]) == conversation(server.requests[1])


SCRIPT = """
import sys
from keyturn import AnthropicModel, FallbackModel, GoogleModel, OpenAIChatCompletionsModel, OpenAIResponsesModel
from keyturn import Agent, MemorySession, Runner, function_tool
from keyturn.testing import ScriptedModel, function_call

@function_tool(needs_approval=True)
def pay(to: str) -> str:
    "Pay somebody."
    return f"paid {to}"

models = [OpenAIResponsesModel("m", api_key="k"), OpenAIChatCompletionsModel("m", api_key="k")]
models += [AnthropicModel("m", api_key="k"), GoogleModel("m", api_key="k"), FallbackModel("openai:m", "google:m")]
agent = Agent("a", model=ScriptedModel([[function_call("pay", {"to": "ada"})], "done"]), tools=[pay])
state = Runner.run_sync(agent, "go", session=MemorySession("s")).to_state()
state.approve(state.get_interruptions()[0])
assert Runner.run_sync(agent, state).final_output == "done"
sdks = {"openai", "anthropic", "google.genai", "httpx2", "sqlalchemy", "cryptography"}
print(sorted(sdks & {*sys.modules}))
"""


def test_no_sdk_is_loaded_before_its_model_is_asked() -> None:
    """A model of each kind is made, and a whole run of another one is played."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
