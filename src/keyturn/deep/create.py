"""Make a deep agent: one call declares the agents, their tools and what waits for people."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isfunction
from typing import Any, NotRequired, TypedDict, cast

from ..agents.agent import Agent
from ..core.errors import UserError
from ..tools.backends.backend import Backend
from ..tools.backends.state import StateBackend
from ..tools.function import function_tool
from .compaction import Compaction
from .core import BackendTools, DeepCore, Family
from .deps import DeepAgentDeps
from .instructions import BASE, DELEGATE, PLAN, Instructions, told
from .interrupts import InterruptRule, Interrupts
from .skills import found_skills, skill_tools, told_of
from .task import TaskTool
from .todos import todo_tools
from .toolset import EXECUTE, FILE_TOOLS

GENERAL = "general-purpose"
_GENERAL_TASKS = "Does any task of several steps with the same tools, so that only its result takes room here."
_DEEPEST, _MOST_TURNS = 5, 1000
MAX_SUBAGENT_TURNS = 50
_Subagents = dict[str, tuple[Agent[Any], str, int]]


class SubAgent(TypedDict):
    """Declares a subagent; what it does not say, it shares with its parent.

    >>> SubAgent(name="research", description="Looks things up.", instructions="Be brief.")["name"]
    'research'
    """

    name: str
    description: str
    instructions: str
    tools: NotRequired[Sequence[Any]]
    model: NotRequired[Any]
    interrupt_on: NotRequired[Mapping[str, InterruptRule]]
    max_turns: NotRequired[int]


@dataclass
class _Plan:
    """Holds what all agents of one deep agent share."""

    backend: Backend
    deps_type: type[DeepAgentDeps]
    offered: frozenset[str]
    model: Any
    tools: list[Any]
    mcp_servers: list[Any]
    subagents: list[SubAgent]
    parts: list[str]
    skills: dict[str, Any]
    memory: tuple[str, ...]
    settings: dict[str, Any]
    max_turns: int
    family: Family
    compaction: Compaction | None
    made: dict[tuple[Interrupts, int], _Subagents] = field(default_factory=dict[tuple[Interrupts, int], "_Subagents"])


def deep_core(
    model: Any = None,
    instructions: Instructions = None,
    tools: Sequence[Any] | None = None,
    interrupt_on: Mapping[str, InterruptRule] | None = None,
    backend: Backend | None = None,
    subagents: Sequence[SubAgent] | None = None,
    skills: Sequence[str | os.PathLike[str]] | None = None,
    memory: str | Sequence[str] | None = None,
    **options: Any,
) -> DeepCore[Any]:
    """Make the keyturn agent of a deep agent; `create_deep_agent` describes the arguments."""
    given = {**_OPTIONS, **_known(options)}
    interrupts = Interrupts(interrupt_on)
    own = StateBackend() if backend is None else backend
    if not isinstance(own, Backend):
        raise UserError(f"backend must be a backend such as StateBackend(), not {backend!r}")
    listed = found_skills(skills or ())
    plan = _Plan(
        own,
        _deps_type(given["deps_type"]),
        _offered(own, interrupts, given),
        model,
        _tools(tools or ()),
        list(given["mcp_servers"] or ()),
        _specs(subagents or (), general=bool(given["include_general_purpose"])),
        [BASE, *([told_of(listed)] if listed else [])],
        listed,
        (memory,) if isinstance(memory, str) else tuple(memory or ()),
        {name: given[name] for name in ("model_settings", "hooks", "output_type") if given[name] is not None},
        _whole("max_subagent_turns", given["max_subagent_turns"], _MOST_TURNS),
        Family(),
        _compaction(given["compaction"]),
    )
    depth = _whole("max_depth", given["max_depth"], _DEEPEST) if given["include_subagents"] else 0
    levels = _subagents(plan, interrupts, depth)
    core = _core(plan, given["name"], told_own(plan, instructions, given, bool(levels)), interrupts, levels)
    for name, value in plan.settings.items():
        setattr(core, name, value)
    if given["include_todo"]:
        core.tools = [*core.tools, *todo_tools()]
    plan.family.builtin = frozenset((*FILE_TOOLS, EXECUTE) if given["include_filesystem"] else ())
    plan.family.check()
    return core


_OPTIONS: dict[str, Any] = {
    "name": "deep-agent",
    "output_type": None,
    "deps_type": DeepAgentDeps,
    "model_settings": None,
    "hooks": None,
    "mcp_servers": None,
    "include_todo": True,
    "include_filesystem": True,
    "include_execute": None,
    "include_subagents": True,
    "include_general_purpose": True,
    "max_depth": 1,
    "compaction": True,
    "max_subagent_turns": MAX_SUBAGENT_TURNS,
}


def _known(options: dict[str, Any]) -> dict[str, Any]:
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(f"create_deep_agent() got an unexpected keyword argument {name!r}")
    return options


def told_own(plan: _Plan, instructions: Instructions, given: Mapping[str, Any], delegates: bool) -> Any:
    """Return the instructions of the main agent."""
    parts = [*plan.parts, *([PLAN] if given["include_todo"] else []), *([DELEGATE] if delegates else [])]
    return told(instructions, parts, plan.memory, plan.backend)


def _core(plan: _Plan, name: str, instructions: Any, interrupts: Interrupts, below: Mapping[str, Any]) -> DeepCore[Any]:
    """Make one agent; `below` are the subagents that its `task` gives work to."""
    core = DeepCore[Any](
        name,
        instructions,
        model=plan.model,
        tools=[
            *plan.tools,
            *(skill_tools(plan.skills) if plan.skills else []),
            *([TaskTool(below)] if below else []),
        ],
        mcp_servers=[*plan.mcp_servers, *([BackendTools(plan.offered)] if plan.offered else [])],
        interrupts=interrupts,
        backend=plan.backend,
        deps_type=plan.deps_type,
        family=plan.family,
        compaction=plan.compaction,
    )
    # Says of which type a saved context comes back.
    vars(core)["__orig_class__"] = DeepCore[plan.deps_type]
    plan.family.agents.append(core)
    plan.family.interrupts.append(interrupts)
    return core


def _subagents(plan: _Plan, above: Interrupts, depth: int) -> _Subagents:
    """Make the subagents of one level, and below it the next; agents under the same rules share those below them."""
    if depth == 0:
        return {}
    if (above, depth) in plan.made:
        return plan.made[above, depth]
    made = plan.made[above, depth] = {}
    for spec in plan.subagents:
        rules = Interrupts(spec["interrupt_on"], above) if "interrupt_on" in spec else above
        below = _subagents(plan, rules, depth - 1)
        core = _core(plan, spec["name"], told(spec["instructions"], plan.parts, (), plan.backend), rules, below)
        if "model" in spec:
            core.model = spec["model"]
        if "tools" in spec:
            inherited = {id(tool) for tool in plan.tools}
            core.tools = [*_tools(spec["tools"]), *(tool for tool in core.tools if id(tool) not in inherited)]
            core.mcp_servers = [server for server in core.mcp_servers if isinstance(server, BackendTools)]
        made[spec["name"]] = core, spec["description"], spec.get("max_turns", plan.max_turns)
    return made


def _specs(given: Sequence[SubAgent], *, general: bool) -> list[SubAgent]:
    """Return the declared subagents, checked, and the built-in one unless there is one of its name."""
    named: dict[str, SubAgent] = {}
    known = {*SubAgent.__required_keys__, *SubAgent.__optional_keys__}
    for spec in cast("Sequence[Any]", given):
        if not isinstance(spec, Mapping):
            raise UserError(f"a subagent is a dict with name, description and instructions, not a {type(spec).__name__}")
        fields = cast("Mapping[str, Any]", spec)
        wrong = sorted(map(str, fields.keys() - known))
        if wrong:
            raise UserError(f"a subagent has no setting {wrong[0]!r}; it has {', '.join(sorted(known))}")
        for field in sorted(SubAgent.__required_keys__):
            if not isinstance(fields.get(field), str) or not fields[field]:
                raise UserError(f"a subagent needs a {field}, a text that is not empty: {dict(fields)!r}")
        if fields["name"] in named:
            raise UserError(f"two subagents are named {fields['name']!r}; give one of them another name")
        if "max_turns" in fields:
            _whole(f"max_turns of subagent {fields['name']!r}", fields["max_turns"], _MOST_TURNS)
        named[fields["name"]] = cast("SubAgent", dict(fields))
    if general and GENERAL not in named:
        named[GENERAL] = SubAgent(name=GENERAL, description=_GENERAL_TASKS, instructions="You do one task and report.")
    return list(named.values())


def _tools(given: Sequence[Any]) -> list[Any]:
    """Return the tools, each plain function made one."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UserError("tools must be a list of tools and functions")
    return [function_tool(tool) if isfunction(tool) else tool for tool in given]


def _offered(backend: Backend, interrupts: Interrupts, given: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the built-in tools; `execute` is there where it can run, and where the caller names it."""
    if not given["include_filesystem"]:
        if given["include_execute"]:
            raise UserError("include_execute=True needs include_filesystem=True: commands run where the files are")
        return frozenset()
    wanted = given["include_execute"]
    if wanted is None:
        named = interrupts.own.get(EXECUTE, False) is not False
        wanted = named or backend.shell is not None
    return frozenset((*FILE_TOOLS, EXECUTE) if wanted else FILE_TOOLS)


def _compaction(given: Any) -> Compaction | None:
    if isinstance(given, bool) or given is None:
        return Compaction() if given else None
    if not isinstance(given, Compaction):
        raise UserError(f"compaction must be a Compaction(...), True or False, not {given!r}")
    return given


def _deps_type(given: Any) -> type[DeepAgentDeps]:
    if not (isinstance(given, type) and issubclass(given, DeepAgentDeps)):
        raise UserError(f"deps_type must be DeepAgentDeps or a dataclass that subclasses it, not {given!r}")
    return given


def _whole(name: str, value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise UserError(f"{name} must be a whole number from 1 to {most}, not {value!r}")
    return value


CoreMaker = Callable[..., DeepCore[Any]]
