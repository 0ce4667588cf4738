"""An agent as a tool says who answers and with what input; the engine does the rest."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from keyturn.agents.agent import Agent
from keyturn.agents.context import ToolContext
from keyturn.core.errors import UserError
from keyturn.core.preview import Json, Text
from keyturn.tools.agent_tool import AgentTool
from keyturn.tools.base import Delegate, InvalidArguments, tool_digest
from keyturn.tools.function import FunctionTool
from keyturn.tools.functions.schema import Secret
from tests.table import each

EXPERT: Agent[Any] = Agent("Contract expert")
CONTEXT = ToolContext(None)


class Question(BaseModel):
    """A question about a clause."""

    clause: int = Field(description="its number")
    urgent: bool = False


def call(arguments: str) -> dict[str, str]:
    return {"type": "function_call", "call_id": "c1", "name": "t", "arguments": arguments}


async def opened(tool: AgentTool, arguments: str) -> Delegate:
    return await tool.invoke(CONTEXT, tool.prepare(call(arguments)))


async def test_one_text_goes_to_the_agent() -> None:
    tool = EXPERT.as_tool("ask", "Asks.")
    assert await opened(tool, '{"input":  "Is it valid?"}') == Delegate(EXPERT, "Is it valid?", 10)
    kept = tool.prepare(call('{"input":  "x"}'))
    assert kept.text == '{"input":  "x"}'
    assert tool.params_json_schema["required"] == ["input"]
    assert tool.params_json_schema["additionalProperties"] is False


@each("text", ["", "{}", "null", '{"input": 3}', '{"input": "a", "more": 1}', '{"input": null}', "x"])
def test_any_other_input_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments, match="The arguments of ask are invalid"):
        EXPERT.as_tool("ask", "Asks.").prepare(call(text))


def test_what_the_engine_reads_is_there() -> None:
    plain = EXPERT.as_tool("ask", "Asks.")
    assert isinstance(plain, FunctionTool)
    assert plain.kind == "agent"
    assert plain.idempotent
    for name in ("custom_output_extractor", "on_stream", "run_config", "hooks", "session", "conversation_id"):
        assert getattr(plain, name) is None
    full = EXPERT.as_tool(
        "ask",
        "Asks.",
        len,
        False,
        print,
        {"workflow_name": "w"},
        3,
        "hooks",
        "resp_1",
        "conv_1",
        "session",
        None,
        True,
    )
    assert (full.custom_output_extractor, full.is_enabled, full.on_stream) == (len, False, print)
    assert (full.run_config, full.max_turns, full.hooks, full.session) == (
        {"workflow_name": "w"},
        3,
        "hooks",
        "session",
    )
    assert (full.previous_response_id, full.conversation_id) == ("resp_1", "conv_1")
    assert full.failure_error_function is None
    assert full.needs_approval is True
    assert full.on_stream_max_pending_events == 1024


@pytest.mark.parametrize("turns", [0, -1, True])
def test_turns_are_counted_from_one(turns: Any) -> None:
    with pytest.raises(UserError, match="max_turns must be 1 or more"):
        EXPERT.as_tool("ask", "Asks.", max_turns=turns)


def test_approval_settings_are_checked_as_everywhere() -> None:
    with pytest.raises(UserError, match="needs_approval must be True, False or a callable"):
        EXPERT.as_tool("ask", "Asks.", needs_approval="yes")


async def test_structured_input_is_validated_and_told_as_json() -> None:
    tool = EXPERT.as_tool("ask", "Asks.", parameters=Question)
    assert tool.params_json_schema["properties"]["clause"]["description"] == "its number"
    prepared = tool.prepare(call('{"clause": 4}'))
    assert prepared.text == '{"clause":4,"urgent":false}'
    told = (await tool.invoke(CONTEXT, prepared)).input
    assert isinstance(told, str)
    assert json.loads(told.split("\n\n", 1)[1]) == {"clause": 4, "urgent": False}
    assert "schema" not in told
    with pytest.raises(InvalidArguments):
        tool.prepare(call('{"clause": "four"}'))


async def test_the_schema_is_told_where_it_is_asked_for() -> None:
    tool = EXPERT.as_tool("ask", "Asks.", parameters=Question, include_input_schema=True)
    told = (await opened(tool, '{"clause": 4}')).input
    assert isinstance(told, str)
    assert "A question about a clause." in told
    assert '"additionalProperties": false' in told


async def test_a_builder_makes_the_input() -> None:
    seen: list[Any] = []

    async def later(options: Any) -> list[dict[str, Any]]:
        seen.append(options)
        return [{"role": "user", "content": str(options["params"]["clause"])}]

    tool = EXPERT.as_tool("ask", "Asks.", parameters=Question, input_builder=later, include_input_schema=True)
    assert (await opened(tool, '{"clause": 4}')).input == [{"role": "user", "content": "4"}]
    assert seen[0]["summary"] == "A question about a clause."
    assert seen[0]["json_schema"] == tool.params_json_schema
    plain = EXPERT.as_tool("ask", "Asks.", input_builder=lambda options: options["params"]["input"].upper())
    assert (await opened(plain, '{"input": "hi"}')).input == "HI"


async def test_it_is_not_run_by_hand() -> None:
    with pytest.raises(UserError, match=r"run by the engine.*Runner\.run"):
        await EXPERT.as_tool("ask", "Asks.").on_invoke_tool(CONTEXT, '{"input": "x"}')


def test_who_answers_is_part_of_what_is_approved() -> None:
    one, other = EXPERT.as_tool("ask", "Asks."), Agent("Intern").as_tool("ask", "Asks.")
    assert tool_digest(one) != tool_digest(other)
    assert one.spec() is one.spec()
    assert one.spec()["agent"] == "Contract expert"


def test_the_preview_is_what_the_agent_would_read() -> None:
    assert EXPERT.as_tool("ask", "Asks.").preview({"input": "Is it valid?"}).blocks == (Text("Is it valid?", "input"),)
    structured = EXPERT.as_tool("ask", "Asks.", parameters=Question)
    assert structured.preview({"clause": 4, "urgent": False}).blocks == (Json({"clause": 4, "urgent": False}),)


def test_a_secret_inside_hides_the_whole_input() -> None:
    class Login(BaseModel):
        user: str
        password: Annotated[str, Secret]

    tool = EXPERT.as_tool("ask", "Asks.", parameters=Login)
    assert set(tool.secrets) == {"user", "password"}
    assert "hunter2" not in str(tool.preview({"user": "ann", "password": "hunter2"}))


def test_the_result_is_rendered_like_a_functions() -> None:
    assert EXPERT.as_tool("ask", "Asks.").output(call("{}"), "done")["output"] == "done"
