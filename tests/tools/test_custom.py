"""Custom tools keep the room's promises, in both forms of their calls, and nothing is added to what the model wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyturn import Agent, Command, CustomTool, InvalidArguments, Runner, RunState, Text, UserError
from keyturn.core.items import Item
from keyturn.testing import ModelStep, ScriptedModel, ToolSuite
from keyturn.testing.crash import Effects
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer
from tests.models.openai.serving import served
from tests.tools.wire import bodies, decided

pytestmark = pytest.mark.usefixtures("own_key")

GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "select" /.+/'}


def called(label: str, text: Any) -> Item:
    return {"type": "custom_tool_call", "call_id": label, "name": "query", "input": text}


class TestCustomTool(ToolSuite):
    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        async def query(context: Any, text: str) -> str:
            effects.record(context, text)
            return f"ran {text}"

        return CustomTool("query", "Runs a query.", query, **settings)

    def call(self, label: str, variant: int = 0) -> Item:
        return called(label, f"select {variant}")

    def edited(self) -> str:
        return "select 1"

    def misfits(self) -> list[Any]:
        return [{"input": "select 1"}, ["select 1"], 1]

    def refused(self) -> list[Item]:
        return [called("bad", text) for text in (None, "\ud800", "a\udfffb")]


class TestCustomToolAsFunction(TestCustomTool):
    """As a provider calls it that knows functions only."""

    def call(self, label: str, variant: int = 0) -> Item:
        return as_function(label, json.dumps({"input": f"select {variant}"}))

    def refused(self) -> list[Item]:
        texts = ("", "{", "[]", '"select 1"', "{}", '{"input":1}', '{"input":"a","input":"b"}', '{"input":"a","b":1}')
        return [as_function("bad", text) for text in texts]


def as_function(label: str, arguments: str) -> Item:
    return {"type": "function_call", "call_id": label, "name": "query", "arguments": arguments}


def tool(**settings: Any) -> CustomTool:
    return CustomTool("query", "Runs a query.", lambda _context, text: f"ran {text}", **settings)


@pytest.mark.parametrize("text", ["", " ", "select 1\n", '{"a":1}', "null", 'a "b"\\', "\u202e\x00é🔑", "x" * 100_000])
async def test_what_the_model_wrote_is_what_runs(text: str) -> None:
    seen: list[Any] = []

    def query(context: Any, given: str) -> str:
        seen.append((context.tool_arguments, given))
        return "ok"

    async def needs(_context: Any, given: Any, _label: str) -> bool:
        seen.append(given)
        return True

    agent = Agent(
        "a",
        model=ScriptedModel([[called("c1", text)], "done"]),
        tools=[CustomTool("query", "", query, needs_approval=needs)],
    )
    state = (await Runner.run(agent, "go")).to_state()
    state = await RunState.from_string(agent, state.to_string())
    [item] = state.get_interruptions()
    assert (item.arguments, item.params, item.preview.blocks[0].text) == (text, text, text)
    state.approve(item)
    assert (await Runner.run(agent, state)).final_output == "done"
    assert seen == [text, (text, text)]


def test_what_people_see() -> None:
    assert tool().preview("select 1").blocks == (Text("select 1", label="input"),)
    assert tool(language="sql").preview("select 1").blocks == (Command("select 1", label="sql"),)


def test_a_tool_that_is_declared_wrongly() -> None:
    for wrong in ({"type": "grammar"}, {"type": "json"}, {**GRAMMAR, "syntax": "ebnf"}):
        with pytest.raises(UserError, match="format must be"):
            tool(format=wrong)
    with pytest.raises(UserError, match="needs_approval must be"):
        tool(needs_approval="yes")
    with pytest.raises(UserError, match="on_approval must be"):
        tool(on_approval=True)
    for given in (3, ["select 1"], {"input": "select 1"}):
        with pytest.raises(InvalidArguments, match="must be a string"):
            tool().prepare(called("c1", given))


@pytest.mark.parametrize(("answer", "ran"), [(True, True), (False, False), ("yes", None), (1, None), (None, None)])
async def test_a_decision_in_line(answer: Any, ran: bool | None) -> None:
    asked: list[str] = []

    async def on_approval(_context: Any, item: Any) -> Any:
        asked.append(item.arguments)
        return {"approve": answer, "reason": "not today"}

    model = ScriptedModel([[called("c1", "select 1")], "done"])
    agent = Agent("a", model=model, tools=[tool(needs_approval=True, on_approval=on_approval)])
    result = await Runner.run(agent, "go")
    assert asked == ["select 1"]
    if ran is None:
        assert len(result.interruptions) == 1
        return
    assert model.calls[1].input[-1]["output"] == ("ran select 1" if ran else "not today")


@pytest.mark.parametrize("kept", [False, True], ids=["whole", "previous"])
async def test_responses(streamed: bool, kept: bool) -> None:
    script = [ModelStep([called("c1", "select 1")], response_id="resp_1"), "done"]
    options = {"auto_previous_response_id": True} if kept else {}
    async with served(server := ResponsesServer(script)) as model:
        agent = Agent("a", model=model, tools=[tool(needs_approval=True, format=GRAMMAR)])
        result = await decided(agent, streamed, lambda state, item: state.approve(item, edit="select 2"), **options)
    assert result.final_output == "done"
    first, second = bodies(server)
    assert first["tools"] == [{"type": "custom", "name": "query", "description": "Runs a query.", "format": GRAMMAR}]
    told = 'A person changed the arguments of this call before approving it. It ran with: "select 2"\n\nran select 2'
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": told}
    before = [] if kept else [{"role": "user", "content": "go"}, {"id": "ctc_1", **called("c1", "select 1")}]
    assert second["input"] == [*before, output]
    assert second.get("previous_response_id") == ("resp_1" if kept else None)


@pytest.mark.each
@pytest.mark.parametrize("openais", [True, False], ids=["OpenAI's server", "another server"])
async def test_chat_completions(streamed: bool, openais: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's own takes custom tools; any other server is told of a function."""
    monkeypatch.setattr("keyturn.models.openai.chat.is_openais", lambda _client: openais)
    call = called("c1", "select 1") if openais else as_function("c1", '{"input": "select 1"}')
    async with served(server := ChatServer([[call], "done"])) as model:
        agent = Agent("a", model=model, tools=[tool(needs_approval=True, format=GRAMMAR)])
        result = await decided(agent, streamed, lambda state, item: state.approve(item))
    assert result.final_output == "done"
    first, second = bodies(server)
    if openais:
        form = {"type": "grammar", "grammar": {"syntax": "lark", "definition": GRAMMAR["definition"]}}
        custom = {"name": "query", "description": "Runs a query.", "format": form}
        assert first["tools"] == [{"type": "custom", "custom": custom}]
    else:
        function = {
            "name": "query",
            "description": "Runs a query.",
            "parameters": tool(format=GRAMMAR).params_json_schema,
        }
        assert first["tools"] == [{"type": "function", "function": {**function, "strict": False}}]
        assert GRAMMAR["definition"] in json.dumps(function, ensure_ascii=False).replace('\\"', '"')
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "ran select 1"}


async def test_anthropic_calls_it_as_a_function(streamed: bool) -> None:
    from keyturn import AnthropicModel

    call = as_function("c1", '{"input": "select 1"}')
    async with MessagesServer([[call], "done"]) as server:
        model = AnthropicModel("m", api_key="k", base_url=server.base_url)
        agent = Agent("a", model=model, tools=[tool(needs_approval=True)])
        result = await decided(agent, streamed, lambda state, item: state.approve(item))
    assert result.final_output == "done"
    first, second = bodies(server)
    [offered] = first["tools"]
    assert (offered["name"], offered["input_schema"]) == ("query", tool().params_json_schema)
    [told] = second["messages"][-1]["content"]
    assert (told["type"], told["content"]) == ("tool_result", "ran select 1")
