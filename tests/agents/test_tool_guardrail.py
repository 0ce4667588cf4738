"""A tool guardrail allows, rejects with a message or raises; any other answer is an error."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.agents.context import ToolContext
from keyturn.agents.tool_guardrail import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    tool_input_guardrail,
    tool_output_guardrail,
)
from keyturn.core.errors import UserError

DATA = ToolInputGuardrailData(ToolContext(None, tool_name="pay", tool_arguments='{"amount": 3}'), agent="a")
OUTPUT = ToolOutputGuardrailData(DATA.context, agent="a", output="42")


def test_the_three_answers() -> None:
    assert ToolGuardrailFunctionOutput.allow("i").behavior == {"type": "allow"}
    rejected = ToolGuardrailFunctionOutput.reject_content("no", output_info="i")
    assert (rejected.output_info, rejected.behavior) == ("i", {"type": "reject_content", "message": "no"})
    assert ToolGuardrailFunctionOutput.raise_exception().behavior == {"type": "raise_exception"}
    assert ToolGuardrailFunctionOutput("info").behavior == {"type": "allow"}


async def test_sync_and_async_functions_see_the_call() -> None:
    async def look(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow(data.context.tool_arguments)

    def judge(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content(f"not {data.output}")

    assert (await ToolInputGuardrail(look).run(DATA)).output_info == '{"amount": 3}'
    assert (await ToolOutputGuardrail(judge).run(OUTPUT)).behavior["message"] == "not 42"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        {"type": "allow"},
        ToolGuardrailFunctionOutput("i", {"type": "alow"}),
        ToolGuardrailFunctionOutput("i", {"type": "reject_content"}),
        ToolGuardrailFunctionOutput("i", None),
        ToolGuardrailFunctionOutput("i", "allow"),
    ],
)
async def test_any_other_answer_is_an_error_and_no_allow(answer: Any) -> None:
    with pytest.raises(UserError, match="tool guardrail 'guard'"):
        await ToolInputGuardrail(lambda data: answer, "guard").run(DATA)
    with pytest.raises(UserError, match="tool guardrail"):
        await ToolOutputGuardrail(lambda data: answer).run(OUTPUT)


@pytest.mark.parametrize("kind", [ToolInputGuardrail, ToolOutputGuardrail])
def test_what_cannot_be_called_is_refused_at_once(kind: Any) -> None:
    with pytest.raises(UserError, match="must be callable, not str"):
        kind("check")


def test_decorators_work_bare_and_called() -> None:
    def check(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow()

    assert tool_input_guardrail(check).get_name() == "check"
    assert tool_input_guardrail(name="in")(check).name == "in"
    assert tool_output_guardrail(check).name == "check"
    assert tool_output_guardrail(name="out")(check).get_name() == "out"
    assert isinstance(ToolInputGuardrail[Any](check), ToolInputGuardrail)
