"""Play a deep agent: plain and streamed, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyturn.deep import DeepAgent
from keyturn.deferred import AgentRunResult, DeferredToolRequests, DeferredToolResults
from keyturn.testing import ScriptedModel, function_call

Play = Callable[..., Any]


async def plainly(agent: DeepAgent, prompt: str | None = "go", **options: Any) -> AgentRunResult[Any]:
    """Run without listening."""
    return await agent.run(prompt, **options)


async def listening(agent: DeepAgent, prompt: str | None = "go", **options: Any) -> AgentRunResult[Any]:
    """Run, and read its stream."""
    async with agent.run_stream(prompt, **options) as streamed:
        await streamed.get_output()
        return streamed.result()


async def answered(play: Play, agent: DeepAgent, waits: Any, deps: Any = None, **answers: Any) -> AgentRunResult[Any]:
    """Go on from a run that waits; every call is approved where nothing else is said."""
    approvals = answers.get("approvals") or {part.tool_call_id: True for part in waits.output.approvals}
    results = DeferredToolResults(approvals=approvals)
    return await play(agent, None, deps=deps, message_history=waits.all_messages(), deferred_tool_results=results)


def asked(result: Any) -> list[str]:
    """Return the names of the tools whose calls wait."""
    return (
        [part.tool_name for part in result.output.approvals] if isinstance(result.output, DeferredToolRequests) else []
    )


def model(*steps: Any) -> ScriptedModel:
    """Make a model that says these things."""
    return ScriptedModel(list(steps))


def writes(path: str, content: str = "x\n") -> Any:
    """Make a call of write_file."""
    return function_call("write_file", {"path": path, "content": content})


def edits(path: str, old: str, new: str) -> Any:
    """Make a call of edit_file."""
    return function_call("edit_file", {"path": path, "old_string": old, "new_string": new})


def runs(command: str, **more: Any) -> Any:
    """Make a call of execute."""
    return function_call("execute", {"command": command, **more})


def delegates(what: str = "Do it.", to: str = "general-purpose") -> Any:
    """Make a call of task."""
    return function_call("task", {"description": what, "subagent_type": to})


def told(scripted: ScriptedModel) -> list[str]:
    """Return what the last request told of results."""
    return [item["output"] for item in scripted.calls[-1].input if item.get("type") == "function_call_output"]
