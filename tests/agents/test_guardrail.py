"""A guardrail reports, sync or async; one that cannot report is an error and never "all clear"."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.agents.context import RunContextWrapper
from keyturn.agents.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
    input_guardrail,
    output_guardrail,
)
from keyturn.core.errors import UserError

CONTEXT = RunContextWrapper("ctx")
REPORT = GuardrailFunctionOutput(output_info="seen", tripwire_triggered=True)


def plain(context: Any, agent: Any, looked_at: Any) -> GuardrailFunctionOutput:
    assert (context, agent, looked_at) == (CONTEXT, "agent", "text")
    return REPORT


async def waiting(context: Any, agent: Any, looked_at: Any) -> GuardrailFunctionOutput:
    return plain(context, agent, looked_at)


@pytest.mark.parametrize("function", [plain, waiting])
async def test_an_input_guardrail_reports(function: Any) -> None:
    guardrail = InputGuardrail(function)
    result = await guardrail.run("agent", "text", CONTEXT)
    assert result.guardrail is guardrail
    assert result.output is REPORT


@pytest.mark.parametrize("function", [plain, waiting])
async def test_an_output_guardrail_reports_with_its_agent_and_output(function: Any) -> None:
    guardrail = OutputGuardrail(function, "look")
    result = await guardrail.run(CONTEXT, "agent", "text")
    assert (result.guardrail, result.agent, result.agent_output, result.output) == (guardrail, "agent", "text", REPORT)


@pytest.mark.parametrize("answer", [None, True, {"tripwire_triggered": False}, "fine"])
async def test_anything_but_a_report_is_an_error(answer: Any) -> None:
    with pytest.raises(UserError, match="must return a GuardrailFunctionOutput"):
        await InputGuardrail(lambda context, agent, text: answer).run(None, "hi", CONTEXT)
    with pytest.raises(UserError, match="'judge'"):
        await OutputGuardrail(lambda context, agent, text: answer, "judge").run(CONTEXT, None, "hi")


@pytest.mark.parametrize("kind", [InputGuardrail, OutputGuardrail])
def test_what_cannot_be_called_is_refused_at_once(kind: Any) -> None:
    with pytest.raises(UserError, match="must be callable, not int"):
        kind(3)


async def test_an_exception_of_the_function_is_the_callers() -> None:
    def broken(context: Any, agent: Any, text: Any) -> GuardrailFunctionOutput:
        raise LookupError("no word list")

    with pytest.raises(LookupError):
        await InputGuardrail(broken).run(None, "hi", CONTEXT)


def test_decorators_work_bare_and_called() -> None:
    bare, called = input_guardrail(plain), input_guardrail(name="length", run_in_parallel=False)(plain)
    assert (bare.name, bare.run_in_parallel, bare.get_name()) == ("plain", True, "plain")
    assert (called.name, called.run_in_parallel) == ("length", False)
    assert output_guardrail(waiting).get_name() == "waiting"
    assert output_guardrail(name="polite")(waiting).name == "polite"


def test_a_callable_object_has_a_name_too() -> None:
    class Check:
        def __call__(self, context: Any, agent: Any, text: Any) -> GuardrailFunctionOutput:
            return REPORT

    assert InputGuardrail(Check()).get_name() == "Check"
