"""A call that a model wrote into its text goes back to it, whatever kind of tool it means; an answer is an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from keyturn import Agent, FunctionTool, ModelSettings, function_tool, handoff
from keyturn.core.errors import ModelBehaviorError
from keyturn.models.openai.chat import OpenAIChatCompletionsModel
from keyturn.models.openai.written_calls import Offered, written_call
from keyturn.testing.loopback.chat import ChatServer
from tests.playing import play

PAY = '{"name": "pay", "arguments": {"amount": 3}}'


def pay(amount: int) -> str:
    """Pay."""
    raise AssertionError("it was never called")


async def by_hand(_context: Any, _arguments: str) -> str:
    raise AssertionError("it was never called")


class Amount(BaseModel):
    amount: int


class Bill(BaseModel):
    name: str
    arguments: Amount


async def played(text: str, streamed: bool, *, then: str = "Done.", **given: Any) -> tuple[Any, list[Any]]:
    """What came of a reply with that text, and the messages of the last request."""
    async with ChatServer([text, then]) as server:
        model = OpenAIChatCompletionsModel("open", base_url=server.base_url, api_key="none")
        agent = Agent("a", model=model, **{"tools": [function_tool(pay, needs_approval=True)], **given})
        try:
            result = await play(agent, "Pay 3.", streamed)
        finally:
            await model.close()
        assert not result.interruptions, "nobody is asked"
        return result.final_output, server.requests[-1].json["messages"]


@pytest.mark.parametrize("text", [PAY, "pay(amount=3)", f"I pay it.\n<tool_call>\n{PAY}\n</tool_call>", "[pay(3)]"])
async def test_it_goes_back_and_the_text_stands_as_it_was_said(text: str, streamed: bool) -> None:
    output, sent = await played(text, streamed)
    assert output == "Done."
    said, told = sent[-2:]
    assert said["content"] == text
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"INVALID_JSON": json.dumps(text)}
    assert told["role"] == "tool"
    assert "must be a JSON object" in told["content"]


async def test_every_kind_of_tool_refuses_it(streamed: bool) -> None:
    other = Agent("b", instructions="You are b.")
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tools = {
        "a function": {"tools": [function_tool(pay)]},
        "a tool made by hand": {"tools": [FunctionTool("pay", "Pay.", schema, by_hand)]},
        "an agent": {"tools": [other.as_tool("pay", "Pay.")]},
        "a handoff": {"tools": [], "handoffs": [handoff(other, tool_name_override="pay")]},
    }
    for kind, given in tools.items():
        output, sent = await played(PAY, streamed, **given)
        assert (output, sent[-1]["role"]) == ("Done.", "tool"), kind
        assert "JSON object" in sent[-1]["content"], kind


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "look", "arguments": {}}',  # no tool of that name
        f"To pay, write {PAY} and wait.",
        f"{PAY}\nThis is how it is written.",
        "pay(amount=3)\nis Python.",
        '{"amount": 3}',
        "pay",
    ],
)
async def test_an_answer_that_mentions_a_call_is_an_answer(text: str, streamed: bool) -> None:
    assert (await played(text, streamed))[0] == text


async def test_data_that_looks_like_a_call_is_the_answer(streamed: bool) -> None:
    assert (await played(PAY, streamed, output_type=Bill))[0] == Bill(name="pay", arguments=Amount(amount=3))
    assert (await played(PAY, streamed, model_settings=ModelSettings(tool_choice="none")))[0] == PAY


@pytest.mark.parametrize("text", [" ", "```", "``` ", "```a", "[TOOL_CALLS]", "[TOOL_CALLS] [", "<tool_call>", "pay("])
def test_a_long_text_is_read_once(text: str) -> None:
    """A million spaces or letters where a call could begin: each was read again from each of them."""
    for filling in " a":
        said = {"type": "message", "role": "assistant", "content": text + 1_000_000 * filling + "!"}
        assert written_call([said], Offered(frozenset({"pay"}))) is None


async def test_a_model_that_writes_nothing_else_fails_at_the_bound(streamed: bool) -> None:
    async with ChatServer([PAY] * 9) as server:
        model = OpenAIChatCompletionsModel("open", base_url=server.base_url, api_key="none")
        with pytest.raises(ModelBehaviorError, match="5 replies in a row whose calls no tool takes"):
            await play(Agent("a", model=model, tools=[function_tool(pay)]), "Pay 3.", streamed)
        await model.close()
        assert len(server.requests) == 5
