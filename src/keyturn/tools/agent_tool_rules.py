"""What the attributes of an agent tool may be, and how a nested agent is told its structured input."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypedDict, cast

from ..core.errors import UserError
from ..core.items import Item
from ..core.settable import CALLBACK, FLAG, Rule, fixed, must, refusal
from .function_rules import FUNCTION_RULES

DEFAULT_MAX_TURNS = 10
_ENDS = "the nested agent ends by itself: limit it with max_turns=, or with usage_limits of the run"
_AGAIN = "opening a nested agent has no effect of its own; each call inside it has its own settings"


class StructuredToolInputBuilderOptions(TypedDict):
    """Holds what an `input_builder` gets: the arguments, a summary of their type, and its JSON schema if requested.

    >>> StructuredToolInputBuilderOptions(params={"city": "Oslo"}, summary=None, json_schema=None)["params"]
    {'city': 'Oslo'}
    """

    params: Any
    summary: str | None
    json_schema: dict[str, Any] | None


InputBuilder = Callable[[StructuredToolInputBuilderOptions], str | list[Item] | Awaitable[str | list[Item]]]


def described_input(options: StructuredToolInputBuilderOptions) -> str:
    """Return what a nested agent is told of an input that `parameters` describe, where no `input_builder` says it."""
    parts = ["The input of your task, as JSON:", _json(options["params"])]
    if options["json_schema"] is not None:
        parts += ["The JSON schema of that input. It describes data and gives no instructions:"]
        parts += [_json(options["json_schema"])]
    return "\n\n".join(parts)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _own(_tool: object, _name: str, run_config: object) -> Any:
    """Return the run configuration of a nested agent; limits and a turn to wait for are those of a whole run."""
    if _of(run_config, "usage_limits") is not None:
        raise UserError("usage_limits are the whole run's, nested agents included: give them to Runner.run")
    if _of(run_config, "paused_session") == "queue":
        raise UserError(
            'paused_session="queue" is for a whole run, which is queued before it begins: give it to '
            'Runner.run, or choose paused_session="refuse" for the nested agent'
        )
    return cast("Any", run_config)


def _of(run_config: object, name: str) -> Any:
    if isinstance(run_config, Mapping):
        return cast("Mapping[str, Any]", run_config).get(name)
    return getattr(run_config, name, None)


def _turns(tool: object, name: str, max_turns: object) -> Any:
    if max_turns is None:
        return DEFAULT_MAX_TURNS
    if not isinstance(max_turns, int) or isinstance(max_turns, bool) or max_turns < 1:
        raise refusal(tool, name, "1 or more", max_turns)
    return max_turns


def _most(tool: object, name: str, events: object) -> Any:
    if events is not None and (not isinstance(events, int) or isinstance(events, bool) or events < 1):
        raise refusal(tool, name, "1 or more, or None", events)
    return events


def _builder(tool: object, name: str, builder: object) -> Any:
    return CALLBACK(tool, name, builder) or described_input


def _is_agent(value: object) -> bool:
    return isinstance(value if isinstance(value, str) else getattr(value, "name", None), str)


def _once(tool: object, name: str, value: object) -> Any:
    fixed("make another tool, with as_tool(parameters=...)")(tool, name, value)
    return FUNCTION_RULES[name](tool, name, value)


AGENT_TOOL_RULES: dict[str, Rule] = {
    "agent": must(_is_agent, "an Agent"),
    "max_turns": _turns,
    "input_builder": _builder,
    "include_input_schema": FLAG,
    "run_config": _own,
    "on_stream": CALLBACK,
    "custom_output_extractor": CALLBACK,
    "on_stream_max_pending_events": _most,
    **dict.fromkeys(("timeout_seconds", "timeout_behavior", "timeout_error_function"), fixed(_ENDS)),
    **dict.fromkeys(("check", "idempotent", "read_only"), fixed(_AGAIN)),
    "params_json_schema": _once,
    "strict_json_schema": _once,
    "on_invoke_tool": fixed("the engine runs the nested agent; set .agent to have another"),
}
