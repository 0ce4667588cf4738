"""A deep agent: the agent of `keyturn.deferred`, with files, commands, a plan, subagents and `interrupt_on`.

It is a declaration over the same agents, tools, gate and log. There is no second loop and no second door.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Unpack

from ..agents.agent import Agent as CoreAgent
from ..agents.settings import RunConfig
from ..core.errors import UserError
from ..core.settable import ELSEWHERE, Rules
from ..deferred.agent import Agent
from ..deferred.output import answer_type
from ..tools.backends.backend import Backend
from .core import DeepCore
from .create import DeepOptions, DeepPlan, SubAgent, options_of, plan_of, tools_of
from .deps import DeepAgentDeps
from .instructions import Instructions
from .interrupts import InterruptRule


def _interrupts(agent: Any, _name: str, rules: Any) -> Any:
    """Give the agent other rules, which hold for the next call, also of runs that go on and of subagents."""
    agent._plan.interrupts.change(rules, agent.core_now().family.check)
    return ELSEWHERE


_OPTIONS = ("backend", "subagents", "skills", "memory")
_PLANNED = "make another agent with create_deep_agent(...)"


class DeepAgent(Agent[DeepAgentDeps]):
    """Runs a deep agent; `create_deep_agent` makes one.

    An `App` takes it as it is: its runs wait in the inbox there, and go on in any worker.
    """

    _rules: ClassVar[Rules] = {"interrupt_on": _interrupts}
    _remedies: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("backend", "subagents", "skills", "memory", *DeepOptions.__annotations__), _PLANNED
    )

    @property
    def interrupt_on(self) -> Mapping[str, InterruptRule]:
        """Return by name which tools ask people."""
        return MappingProxyType(self._plan.interrupts.own)  # a name that is put in here would be compared with no tool

    def __init__(self, plan: DeepPlan, instructions: Instructions, tools: Sequence[Any], given: dict[str, Any]) -> None:
        self._plan = plan
        self._core: tuple[Any, DeepCore[Any]] | None = None
        limits = given["usage_limits"]
        super().__init__(
            plan.model,
            output_type=given["output_type"],
            instructions=instructions,
            deps_type=plan.deps_type,
            name=given["name"],
            model_settings=given["model_settings"],
            tools=tools,
            handle_deferred=given["handle_deferred"],
            hooks=given["hooks"],
            policy=given["policy"],
            run_config=None if limits is None else RunConfig(usage_limits=limits),
        )

    def core_now(self, output_type: object = None) -> CoreAgent[DeepAgentDeps]:
        """Return the `keyturn.Agent` that its own runs run."""
        answer = answer_type(self.output_type if output_type is None else output_type)
        declared = (answer, self.model, self.name, tuple(map(id, self._tools)), tuple(self._instructions.known_by()))
        if self._core is None or self._core[0] != declared:
            self._plan.model = self.model
            core = self._plan.core(self.name or "deep-agent", self._instructions.text, self._tools)
            core.model_settings = self.model_settings
            core.output_type = None if answer is str else answer
            self._core = declared, core
            self._cores.add(core)
        return self._core[1]

    def _renew(self) -> None:
        self.core_now()


def create_deep_agent(
    model: object = None,
    instructions: Instructions = None,
    tools: Sequence[Any] | None = None,
    interrupt_on: Mapping[str, InterruptRule] | None = None,
    backend: Backend | None = None,
    subagents: Sequence[SubAgent] | None = None,
    skills: Sequence[str | os.PathLike[str]] | None = None,
    memory: str | Sequence[str] | None = None,
    **options: Unpack[DeepOptions],
) -> DeepAgent:
    """Make an agent with files, commands, a plan and subagents.

    `interrupt_on` says by name which tools ask people: True, False, a callable `(ctx, params, call_id)`, or the terms
    of an `Approval(...)`. It holds for the agent's own tools, for yours, for those of MCP servers, and for those of
    subagents at every depth. A name that no tool has is refused. `execute` asks unless it is set to False.

    `backend` is where files are, in memory by default; `skills` are folders of skills, `memory` is the path of a file
    that the agent is told of in each turn and may change. `DeepOptions` lists the rest.

    >>> from keyturn.testing import ScriptedModel, function_call
    >>> model = ScriptedModel([[function_call("write_file", {"path": "/a.txt", "content": "milk"})], "Done."])
    >>> agent = create_deep_agent(model, interrupt_on={"write_file": True})
    >>> agent.run_sync("Write it down.").output.approvals[0].args
    {'path': '/a.txt', 'content': 'milk'}
    """
    given = options_of(options)
    if not isinstance(given["name"], str) or not given["name"]:
        raise UserError(f"name must be a text that is not empty, not {given['name']!r}")
    plan = plan_of(model, interrupt_on, backend, subagents, skills, memory, given)
    return DeepAgent(plan, instructions, tools_of(tools or ()), given)
