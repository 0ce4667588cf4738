"""What the attributes of an agent may be, in its constructor and at any time after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import isfunction
from types import UnionType
from typing import Any, cast, get_origin

from ..core.errors import UserError
from ..core.settable import Rule, must, then
from ..models.base import Model, ModelSettings
from .agent_base import AgentBase
from .guardrail import InputGuardrail, OutputGuardrail
from .handoff import Handoff, check_handoff
from .hooks import AgentHooksBase
from .output import AgentOutputSchemaBase


def _is(wanted: type | UnionType) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, wanted)


def _instructions(value: object) -> bool:
    return value is None or isinstance(value, str) or callable(value)


def _prompt(value: object) -> bool:
    return value is None or isinstance(value, dict) or callable(value)


def _output_type(value: object) -> bool:
    return isinstance(value, type | AgentOutputSchemaBase | None) or get_origin(value) is not None


def _is_behavior(behavior: object) -> bool:
    if isinstance(behavior, dict):
        names: Any = cast("dict[str, Any]", behavior).get("stop_at_tool_names")
        return isinstance(names, list) and all(isinstance(name, str) for name in cast("list[Any]", names))
    return behavior in ("run_llm_again", "stop_on_first_tool") or callable(behavior)


def check_tool(agent: AgentBase[Any], tool: object) -> None:
    """Refuse what is easily put among an agent's tools, or forgotten to be wrapped."""
    where = f"tools of agent {agent.name!r}"
    if isinstance(tool, AgentBase):
        raise UserError(f"{where}: an agent is not a tool: use its as_tool(...)")
    if isfunction(tool):
        raise UserError(f"{where}: {tool.__name__!r} is a plain function: decorate it with @function_tool")
    if not isinstance(getattr(tool, "name", None), str):
        remedy = "decorate a function with @function_tool, or subclass keyturn.Tool"
        raise UserError(f"{where}: {tool!r} is no tool: {remedy}")


def _check_tools(agent: AgentBase[Any], tools: Iterable[object]) -> None:
    for tool in tools:
        check_tool(agent, tool)


def _check_handoffs(agent: AgentBase[Any], handoffs: Iterable[object]) -> None:
    for entry in handoffs:
        if not isinstance(entry, AgentBase | Handoff):
            what = f"an Agent or a Handoff, not {type(entry).__name__}"
            raise UserError(f"handoffs of agent {agent.name!r}: an entry must be {what}")
        given = cast("Any", entry)
        check_handoff(agent, given.agent if isinstance(entry, Handoff) else given, given)


def _guardrails(setting: str, wanted: type) -> Rule:
    def check(agent: AgentBase[Any], guardrails: Iterable[object]) -> None:
        for entry in guardrails:
            if not isinstance(entry, wanted):
                remedy = f"decorate it with @{wanted.__name__.replace('Guardrail', '_guardrail').lower()}"
                raise UserError(f"{setting} of agent {agent.name!r}: {entry!r} is not an {wanted.__name__}: {remedy}")

    return then(_LIST, check)


_LIST = must(_is(list), "a list")

AGENT_RULES: dict[str, Rule] = {
    "name": must(_is(str), "a string"),
    "handoff_description": must(_is(str | None), "a string or None"),
    "instructions": must(_instructions, "a string, callable, or None"),
    "prompt": must(_prompt, "a Prompt, callable, or None"),
    "handoffs": then(_LIST, _check_handoffs),
    "model": must(_is(str | Model | None), "a string, Model, or None"),
    "model_settings": must(_is(ModelSettings), "a ModelSettings instance"),
    "tools": then(_LIST, _check_tools),
    "mcp_servers": _LIST,
    "mcp_config": must(_is(dict), "a dict"),
    "input_guardrails": _guardrails("input_guardrails", InputGuardrail),
    "output_guardrails": _guardrails("output_guardrails", OutputGuardrail),
    "output_type": must(_output_type, "a type, AgentOutputSchemaBase, or None"),
    "hooks": must(_is(AgentHooksBase | None), "an AgentHooks instance or None"),
    "tool_use_behavior": must(_is_behavior, "'run_llm_again', 'stop_on_first_tool', StopAtTools dict, or callable"),
    "reset_tool_choice": must(_is(bool), "a boolean"),
}
