"""Make the agents of a deep agent from what its one call declares; whatever is wrong is refused there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NotRequired, TypedDict, cast

from ..agents.agent import Agent
from ..agents.hooks import RunHooks
from ..agents.limits import UsageLimits
from ..core.errors import UserError
from ..core.settable import unexpected
from ..deferred.absent import ABSENT
from ..deferred.requests import DeferredHandler
from ..deferred.tool import as_tool
from ..models.base import ModelSettings
from ..policies.base import PolicyLike
from ..tools.backends.backend import Backend
from ..tools.backends.state import StateBackend
from .compaction import Compaction
from .core import EXECUTE, FILE_TOOLS, BackendTools, DeepCore, Family
from .deps import DeepAgentDeps
from .instructions import BASE, DELEGATE, PLAN, told
from .interrupts import InterruptRule, Interrupts
from .skills import Skill, found_skills, listed_skills, skill_tools
from .task import TaskTool
from .todos import todo_tools

GENERAL = "general-purpose"
_GENERAL_TASKS = "Does any task of several steps with the same tools, so that only its result takes room here."
_DEEPEST, _MOST_TURNS = 5, 1000
_NEEDED = ("name", "description", "instructions")
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


class DeepOptions(TypedDict, total=False):
    """Declares the further options of `create_deep_agent`.

    >>> DeepOptions(name="ops", max_depth=2)["max_depth"]
    2
    """

    name: str  # the agent's name, by which an app and a history know it
    output_type: Any  # the type of its answer
    deps_type: type[DeepAgentDeps]  # the type of its runs' deps
    handle_deferred: DeferredHandler | None  # decides calls that wait without ending the run
    policy: PolicyLike | None  # says of each call whether it may run, beside interrupt_on; an App has its own
    usage_limits: UsageLimits | None  # the limits of each of its runs
    model_settings: ModelSettings | None  # how its model answers
    hooks: RunHooks[Any] | None  # are called while its runs go on
    mcp_servers: Sequence[Any]  # bring more tools
    compaction: Compaction | bool  # when a long conversation is summarised, False for never
    include_todo: bool  # whether it has write_todos
    include_filesystem: bool  # whether it has the tools for files
    include_execute: bool | None  # whether it has execute; by default where that can run, or interrupt_on names it
    include_skills: bool  # whether it is told of its skills and can read them
    include_subagents: bool  # whether it has task
    include_general_purpose: bool  # whether there is a subagent for any task
    max_depth: int  # how deep subagents may have subagents
    max_subagent_turns: int  # how many turns a subagent has for one task


_PARAMETERS = ("model", "instructions", "tools", "interrupt_on", "backend", "subagents", "skills", "memory")
_OPTIONS: dict[str, Any] = {
    "name": "deep-agent",
    "output_type": str,
    "deps_type": DeepAgentDeps,
    "handle_deferred": None,
    "policy": None,
    "usage_limits": None,
    "model_settings": None,
    "hooks": None,
    "mcp_servers": (),
    "compaction": True,
    "include_todo": True,
    "include_filesystem": True,
    "include_execute": None,
    "include_skills": True,
    "include_subagents": True,
    "include_general_purpose": True,
    "max_depth": 1,
    "max_subagent_turns": 50,
}


def options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options, or raise `TypeError` for one that there is not."""
    for name, value in given.items():
        if name not in _OPTIONS:
            raise unexpected("create_deep_agent()", name, (*_PARAMETERS, *_OPTIONS), ABSENT.get(name))
        if name.startswith("include_") and not isinstance(value, bool | None):
            raise UserError(f"{name} must be True or False, not {value!r}")
    return {**_OPTIONS, **given}


@dataclass
class DeepPlan:
    """Holds what all agents of one deep agent share, checked; `core` makes the agents."""

    backend: Backend
    deps_type: type[DeepAgentDeps]
    interrupts: Interrupts
    offered: frozenset[str]
    model: Any
    mcp_servers: list[Any]
    subagents: list[SubAgent]
    skills: dict[str, Skill]
    memory: tuple[str, ...]
    compaction: Compaction | None
    depth: int
    max_turns: int
    todo: bool
    execute: bool | None
    tools: list[Any] = field(default_factory=list[Any])
    family: Family = field(default_factory=Family)
    made: dict[tuple[Interrupts, int], _Subagents] = field(default_factory=dict[tuple[Interrupts, int], "_Subagents"])

    def backend_tools(self) -> list[BackendTools]:
        """Return what brings the tools for the files, where the agent has them."""
        return [BackendTools(self.offered, where_it_runs=self.execute is None)] if self.offered else []

    def core(self, name: str, instructions: Any, tools: Sequence[Any]) -> DeepCore[Any]:
        """Make the main agent, with the subagents below it, and refuse rules that name no tool."""
        plan = replace(self, tools=list(tools), family=Family(), made={})
        below = _subagents(plan, self.interrupts, self.depth)
        parts = [*_parts(plan), *([PLAN] if self.todo else []), *([DELEGATE] if below else [])]
        told_now = told(instructions, parts, self.memory, self.backend)
        core = _core(plan, name, told_now, (self.interrupts, below))
        if self.todo:
            core.tools = [*core.tools, *todo_tools()]
        plan.family.builtin = frozenset((*FILE_TOOLS, EXECUTE) if self.offered else ())
        for agent in plan.family.agents:
            _check_names(agent, plan.offered)
        plan.family.check()
        return core


def plan_of(
    model: object,
    interrupt_on: Mapping[str, InterruptRule] | None,
    backend: Backend | None,
    subagents: Sequence[SubAgent] | None,
    skills: Sequence[str | os.PathLike[str]] | None,
    memory: str | Sequence[str] | None,
    given: Mapping[str, Any],
) -> DeepPlan:
    """Check what `create_deep_agent` was given."""
    own: object = StateBackend() if backend is None else backend
    if not isinstance(own, Backend):
        raise UserError(f"backend must be a backend such as StateBackend(), not {backend!r}")
    if isinstance(skills, str | os.PathLike):
        raise UserError("skills must be a list of folders, not one path")
    remembered = (memory,) if isinstance(memory, str) else tuple(memory or ())
    for path in remembered:
        own.parts(path)  # which refuses a path that no backend has
    interrupts = Interrupts(interrupt_on)
    return DeepPlan(
        own,
        _deps_type(given["deps_type"]),
        interrupts,
        _offered(own, interrupts, given),
        model,
        list(given["mcp_servers"] or ()),
        _specs(subagents or (), general=given["include_general_purpose"]),
        found_skills(skills or ()) if given["include_skills"] else {},
        remembered,
        _compaction(given["compaction"]),
        _whole("max_depth", given["max_depth"], _DEEPEST) if given["include_subagents"] else 0,
        _whole("max_subagent_turns", given["max_subagent_turns"], _MOST_TURNS),
        given["include_todo"],
        given["include_execute"],
    )


def _check_names(agent: Agent[Any], offered: frozenset[str]) -> None:
    """Refuse a tool of the caller's with the name of another one, where the agent is made and not in its first turn."""
    seen = set(offered)
    for tool in agent.tools:
        if tool.name in seen:
            raise UserError(f"two tools of the agent {agent.name!r} are called {tool.name!r}; give one another name")
        seen.add(tool.name)


def _parts(plan: DeepPlan) -> list[str]:
    return [BASE, *([listed_skills(plan.skills)] if plan.skills else [])]


def _core(plan: DeepPlan, name: str, instructions: Any, place: tuple[Interrupts, _Subagents]) -> DeepCore[Any]:
    """Make one agent under its rules, with the subagents that its `task` gives work to."""
    interrupts, below = place
    core = DeepCore[Any](
        name,
        instructions,
        model=plan.model,
        tools=[
            *plan.tools,
            *(skill_tools(plan.skills) if plan.skills else []),
            *([TaskTool(below)] if below else []),
        ],
        mcp_servers=[*plan.mcp_servers, *plan.backend_tools()],
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


def _subagents(plan: DeepPlan, above: Interrupts, depth: int) -> _Subagents:
    """Make the subagents of one level, and below it the next; agents under the same rules share those below them."""
    if depth == 0:
        return {}
    if (above, depth) in plan.made:
        return plan.made[above, depth]
    made = plan.made[above, depth] = {}
    for spec in plan.subagents:
        rules = Interrupts(spec["interrupt_on"], above) if "interrupt_on" in spec else above
        below = _subagents(plan, rules, depth - 1)
        core = _core(plan, spec["name"], told(spec["instructions"], _parts(plan), (), plan.backend), (rules, below))
        if "model" in spec:
            core.model = spec["model"]
        if "tools" in spec:
            inherited = {id(tool) for tool in plan.tools}
            core.tools = [*tools_of(spec["tools"]), *(tool for tool in core.tools if id(tool) not in inherited)]
            core.mcp_servers = [server for server in core.mcp_servers if isinstance(server, BackendTools)]
        made[spec["name"]] = core, spec["description"], spec.get("max_turns", plan.max_turns)
    return made


def _specs(given: Sequence[SubAgent], *, general: bool) -> list[SubAgent]:
    """Return the declared subagents, checked, and the built-in one unless there is one of its name."""
    named: dict[str, SubAgent] = {}
    known = SubAgent.__annotations__.keys()
    if isinstance(given, str | Mapping):
        raise UserError("subagents must be a list of dicts")
    for spec in cast("Sequence[Any]", given):
        if not isinstance(spec, Mapping):
            raise UserError(
                f"a subagent is a dict with name, description and instructions, not a {type(spec).__name__}"
            )
        fields = cast("Mapping[str, Any]", spec)
        wrong = sorted(map(str, fields.keys() - known))
        if wrong:
            raise UserError(f"a subagent has no setting {wrong[0]!r}; it has {', '.join(sorted(known))}")
        for name in _NEEDED:
            if not isinstance(fields.get(name), str) or not fields[name]:
                raise UserError(f"a subagent needs a {name}, a text that is not empty: {dict(fields)!r}")
        if fields["name"] in named:
            raise UserError(f"two subagents are named {fields['name']!r}; give one of them another name")
        if "max_turns" in fields:
            _whole(f"max_turns of subagent {fields['name']!r}", fields["max_turns"], _MOST_TURNS)
        named[fields["name"]] = cast("SubAgent", dict(fields))
    if general and GENERAL not in named:
        named[GENERAL] = SubAgent(name=GENERAL, description=_GENERAL_TASKS, instructions="You do one task and report.")
    return list(named.values())


def tools_of(given: Sequence[Any]) -> list[Any]:
    """Return the tools, each plain function made one."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UserError("tools must be a list of tools and functions")
    return [as_tool(tool, "tools") for tool in given]


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


def _compaction(given: object) -> Compaction | None:
    if isinstance(given, bool) or given is None:
        return Compaction() if given else None
    if not isinstance(given, Compaction):
        raise UserError(f"compaction must be a Compaction(...), True or False, not {given!r}")
    return given


def _deps_type(given: object) -> type[DeepAgentDeps]:
    if not (isinstance(given, type) and issubclass(given, DeepAgentDeps)):
        raise UserError(f"deps_type must be DeepAgentDeps or a dataclass that subclasses it, not {given!r}")
    return given


def _whole(name: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise UserError(f"{name} must be a whole number from 1 to {most}, not {value!r}")
    return value
