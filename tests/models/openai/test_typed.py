"""Items of a reply as the OpenAI SDK's own objects: where that is asked for, whatever provider replied."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseReasoningItem,
)
from openai.types.responses.response_output_item import McpApprovalRequest

from keyturn import Agent, UserError, function_tool
from keyturn.models.base import ModelResponse
from keyturn.models.openai import typed
from keyturn.testing import ScriptedModel, assistant_message, function_call, reasoning
from tests.playing import Run


@function_tool(needs_approval=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


async def test_the_raw_item_of_a_run_is_typed_where_that_is_asked_for(run: Run) -> None:
    reply = [reasoning("it is due"), assistant_message("I pay."), function_call("pay", {"to": "ann"}, call_id="c1")]
    result = await run(Agent("desk", model=ScriptedModel([reply]), tools=[pay]), "go")
    made = [item.raw_item.typed() for item in result.new_items]
    wanted = [ResponseReasoningItem, ResponseOutputMessage, ResponseFunctionToolCall, ResponseFunctionToolCall]
    assert [type(each) for each in made] == wanted
    assert (made[1].content[0].text, made[2].name, made[2].arguments) == ("I pay.", "pay", '{"to":"ann"}')
    assert [type(each.typed()) for each in result.raw_responses[0].output] == wanted[:3]


async def test_a_typed_item_is_a_copy(run: Run) -> None:
    result = await run(Agent("desk", model=ScriptedModel(["hi"])), "go")
    made = result.new_items[0].raw_item.typed()
    made.content[0].text = "changed"
    assert result.new_items[0].raw_item.content[0].text == "hi"
    assert result.to_input_list()[-1]["content"][0]["text"] == "hi"


def test_odd_items_are_typed_as_far_as_they_go() -> None:
    items: list[Any] = [
        {"role": "assistant", "content": "hi"},
        {"type": "mcp_approval_request", "id": "r", "name": "read", "server_label": "s", "arguments": "{}"},
        {"type": "function_call", "name": "pay"},
        {"type": "of tomorrow", "id": "x"},
    ]
    made = [item.typed() for item in ModelResponse(items).output]
    assert [type(each) for each in made[:3]] == [ResponseOutputMessage, McpApprovalRequest, ResponseFunctionToolCall]
    assert made[0].content[0].text == "hi"
    assert made[3] == items[3], "one that the SDK does not know is as it was"


def test_without_the_sdk_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    typed._classes.cache_clear()
    monkeypatch.setitem(sys.modules, "openai.types.responses", None)
    with pytest.raises(UserError, match=r"pip install 'keyturn\[openai\]'"):
        ModelResponse([{"type": "reasoning"}]).output[0].typed()


@pytest.mark.trial
def test_no_sdk_is_imported_before() -> None:
    program = """
import sys
from keyturn import Agent, Runner
from keyturn.testing import ScriptedModel
item = Runner.run_sync(Agent("a", model=ScriptedModel(["hi"])), "go").new_items[0].raw_item
assert "openai" not in sys.modules
print(type(item.typed()).__name__, "openai" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "ResponseOutputMessage True\n"
