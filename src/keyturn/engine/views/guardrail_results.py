"""The results of guardrails: the objects themselves, or what is recorded where another process asked them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...agents.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
)
from ...agents.tool_guardrail import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailResult,
    ToolOutputGuardrail,
    ToolOutputGuardrailResult,
)
from ...core import events as ev
from ..run.open_run import OpenRun


class _Recorded(NamedTuple):
    """Stands for the function of a guardrail that another process asked: it answers what is recorded."""

    output: Any

    def __call__(self, *_given: object) -> Any:
        return self.output


def results_of(live: OpenRun, reports: list[tuple[str, ev.Report]], stage: str) -> list[Any]:
    """Return the results of one stage, in the order in which they came, each pause included."""
    return [guardrail_result(live, on, report) for on, report in reports if report.stage == stage]


def guardrail_result(live: OpenRun, on: str, report: ev.Report) -> Any:
    """Return the result that a report is of, of a guardrail that has at least its name."""
    known = live.said(on, report)
    if known is not None:
        return known
    if report.stage == "input":
        output = GuardrailFunctionOutput(report.info, report.tripped)
        return InputGuardrailResult(InputGuardrail(_Recorded(output), report.name), output)
    if report.stage == "output":
        return _of_output(live, on, report)
    said = _of_tool(live, on, report)
    if report.stage == "tool_input":
        return ToolInputGuardrailResult(ToolInputGuardrail(_Recorded(said), report.name), said)
    return ToolOutputGuardrailResult(ToolOutputGuardrail(_Recorded(said), report.name), said)


def _of_output(live: OpenRun, on: str, report: ev.Report) -> OutputGuardrailResult:
    output = GuardrailFunctionOutput(report.info, report.tripped)
    run = live.log.run
    frame = run.frames.get(on)
    agent = live.graph.root if frame is None else live.graph.agent(frame.agent)
    answer = live.finals.get(on, run.output if on == ev.ROOT else None)
    return OutputGuardrailResult(OutputGuardrail(_Recorded(output), report.name), answer, agent, output)


def _of_tool(live: OpenRun, on: str, report: ev.Report) -> ToolGuardrailFunctionOutput:
    """Return what a tool's guardrail said; of one that rejected the call, with what the model reads in its place."""
    if not report.tripped:
        return ToolGuardrailFunctionOutput.allow(report.info)
    events = (event for step in live.log.steps for event in step.events)
    ends = (event for event in events if isinstance(event, ev.CallFinished) and event.call == on)
    end = next(ends, None)
    return ToolGuardrailFunctionOutput.reject_content("" if end is None else str(end.item.get("output")), report.info)
