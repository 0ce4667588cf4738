"""Check an answer before it is final, whoever gave it: run output guardrails, call the end hooks.

A model's answer, a tool's and an error handler's all come through here. Nothing here decides what the answer is.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ...agents.agent import Agent
from ...core.events import Report
from ...core.run import Frame
from ..driving.drive import Drive
from ..run.facts import jsonable
from ..run.frame_settings import FrameSettings
from ..tracing.spans import checked


async def concluded(drive: Drive, frame: Frame, scope: FrameSettings, agent: Agent[Any], value: Any) -> list[Report]:
    """Return the output guardrails' reports on an answer; where they let it pass, call the end hooks."""
    guardrails = [*agent.output_guardrails, *(scope.config.output_guardrails or [])]
    looks = [checked(drive.traces, one, "output", one.run(scope.context, agent, value)) for one in guardrails]
    results = await asyncio.gather(*looks)
    reports: list[Report] = []
    for result in results:
        name, output = result.guardrail.get_name(), result.output
        drive.live.guardrails[f"{frame.id}:output:{name}"] = result
        reports.append(Report(name, "output", output.tripwire_triggered, jsonable(output.output_info)))
    if any(report.tripped for report in reports):
        return reports
    if scope.hooks is not None:
        await scope.hooks.on_agent_end(scope.context, agent, value)
    if agent.hooks is not None:
        await agent.hooks.on_end(scope.context, agent, value)
    return reports
