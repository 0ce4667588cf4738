"""Project the guardrail reports of a log to the objects users know."""

from __future__ import annotations

from typing import Any

from ...agents.guardrail import GuardrailFunctionOutput, InputGuardrailResult, OutputGuardrailResult
from ...agents.tool_guardrail import ToolGuardrailFunctionOutput, ToolInputGuardrailResult, ToolOutputGuardrailResult
from ...core import events as ev
from ..run.open_run import OpenRun


def results_of(live: OpenRun, reports: list[tuple[str, ev.Report]], stage: str) -> list[Any]:
    """Return the results of one stage, in the order in which they came, each pause included."""
    return [_result(live, on, report) for on, report in reports if report.stage == stage]


def _result(live: OpenRun, on: str, report: ev.Report) -> Any:
    known = live.guardrails.get(f"{on}:{report.stage}:{report.name}")
    if known is not None:
        return known
    named: Any = report.name
    if report.stage in ("tool_input", "tool_output"):
        said = ToolGuardrailFunctionOutput(report.info)
        return (ToolInputGuardrailResult if report.stage == "tool_input" else ToolOutputGuardrailResult)(named, said)
    output = GuardrailFunctionOutput(report.info, report.tripped)
    if report.stage == "input":
        return InputGuardrailResult(named, output)
    return OutputGuardrailResult(named, None, live.graph.root, output)
