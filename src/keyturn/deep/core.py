"""The agent inside a deep agent: a keyturn agent that brings its interrupts, its deps and the tools of its backend.

Everything else is the engine's: there is no loop here and no gate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, cast
from weakref import WeakKeyDictionary

from ..agents.agent import Agent
from ..agents.context import RunContextWrapper, TContext
from ..agents.context_type import made_as
from ..core.errors import UserError
from ..core.nested_agent import nested_agent
from ..tools.backends.backend import Backend
from ..tools.backends.state import StateBackend
from ..tools.base import Tool, stands_for_several
from ..tools.files import filesystem_tools
from .compaction import Compaction
from .deps import DeepAgentDeps, deps_of
from .execute import ExecuteTool
from .interrupts import Interrupts, unknown_names

FILE_TOOLS = ("ls", "read_file", "write_file", "edit_file", "glob", "grep")
EXECUTE = "execute"

_MADE: WeakKeyDictionary[Backend, list[Tool]] = WeakKeyDictionary()
# Whether one asks is for the agent's interrupts to say.
_UNASKED: dict[str, Any] = {"write_file": False, "edit_file": False}


@dataclass
class Family:
    """Knows all agents of one deep agent, to find out whether each rule names a tool that one of them has."""

    interrupts: list[Interrupts] = field(default_factory=list[Interrupts])
    agents: list[Agent[Any]] = field(default_factory=list[Agent[Any]])
    builtin: frozenset[str] = frozenset()
    settled: frozenset[str] | None = None  # the names with which the rules were last compared

    def check(self) -> None:
        """Refuse a rule that names no tool, unless a server may still bring one of that name."""
        everyone, self.settled = self._everyone(), None
        if not any(_servers_of(agent) for agent in everyone):
            self._check(names := self._own_names(everyone))
            self.settled = frozenset(names)

    async def settle(self, context: RunContextWrapper[Any]) -> None:
        """Do the same once servers can be asked: before the first turn, and again where a tool has another name."""
        everyone = self._everyone()
        names = self._own_names(everyone)
        own = frozenset(names)
        if self.settled == own:
            return
        if self._missing(names):
            for agent in everyone:
                names |= {tool.name for tool in await _listed(agent, context)}
            self._check(names)
        self.settled = own

    def _everyone(self) -> list[Agent[Any]]:
        """Return every agent that can be reached from these, through handoffs and agents as tools."""
        found: dict[int, Agent[Any]] = {}
        queue = list(self.agents)
        while queue:
            agent = queue.pop()
            if id(agent) in found:
                continue
            found[id(agent)] = agent
            targets = [entry if isinstance(entry, Agent) else entry.agent for entry in agent.handoffs]
            targets += [nested_agent(tool).agent for tool in agent.tools]
            queue += [target for target in targets if isinstance(target, Agent)]
        return list(found.values())

    def _own_names(self, agents: list[Agent[Any]]) -> set[str]:
        tools = [tool for agent in agents for tool in agent.tools if isinstance(tool, Tool) and not tool.hosted]
        of_servers = {f"{tool.name}/*" for tool in tools if stands_for_several(tool)}
        return {tool.name for tool in tools} | of_servers | set(self.builtin)

    def _missing(self, names: set[str]) -> bool:
        return any(unknown_names(rules.own, names) for rules in self.interrupts)

    def _check(self, names: set[str]) -> None:
        for rules in self.interrupts:
            error = unknown_names(rules.own, names)
            if error is not None:
                raise error


@dataclass(eq=False)
class DeepCore(Agent[TContext], Generic[TContext]):
    """Works for a deep agent in the engine; `create_deep_agent` makes it.

    >>> DeepCore("deep").own_policy() is None
    True
    """

    interrupts: Interrupts | None = None
    backend: Backend = field(default_factory=StateBackend)
    deps_type: type[DeepAgentDeps] = DeepAgentDeps
    family: Family = field(default_factory=Family)
    compaction: Compaction | None = None

    def own_policy(self) -> Any:
        """Return the rules of `interrupt_on`."""
        return self.interrupts

    def own_context(self, saved: object = None) -> Any:
        """Return the deps of a run that is given none; such deps go along with the run's messages."""
        made = self.deps_type() if saved is None else made_as(self.deps_type, saved)
        made.own = True
        return made

    def own_compaction(self) -> Any:
        """Return what shortens a conversation that grows too long."""
        return self.compaction

    async def get_all_tools(self, run_context: RunContextWrapper[TContext]) -> list[Any]:
        """Return the tools that are enabled now; before the first turn, rules that name none of them are refused."""
        await self.family.settle(run_context)
        return await super().get_all_tools(run_context)


def backend_tools(backend: Backend) -> list[Tool]:
    """Return the tools of a backend: its files, and its commands where it has a shell.

    They are made once for each. What a call of one would touch is part of what is approved, so that an approval for the
    files of one place says nothing of those of another.
    """
    known = _MADE.get(backend)
    if known is None:
        known = _MADE[backend] = [
            *filesystem_tools(backend, needs_approval=_UNASKED),
            cast("Tool", ExecuteTool(backend)),
        ]
    return known


class BackendTools:
    """Brings the tools of a run's backend to its agent, as a server brings its own.

    With `where_it_runs`, `execute` is among them where the backend of the run has a shell.
    """

    def __init__(self, offered: frozenset[str], *, where_it_runs: bool) -> None:
        self.offered = offered
        self._where_it_runs = where_it_runs

    def known_tools(self, agent: Any) -> list[Tool]:
        """Return the tools of the agent's own backend, for the lint of rules: those of a run's may be others."""
        return [tool for tool in backend_tools(agent.backend) if tool.name in self.offered]

    async def tools_for(self, context: RunContextWrapper[Any], agent: object) -> list[Any]:
        """Return the tools for the files of this run."""
        if not isinstance(agent, DeepCore):
            raise UserError("these tools belong to a deep agent, whose interrupt_on says which of them ask")
        deps = deps_of(context, agent.backend)
        assert deps.backend is not None
        own = {tool.name for tool in agent.tools}
        runs = self._where_it_runs and deps.backend.shell is not None and EXECUTE not in own
        names = self.offered | {EXECUTE} if runs else self.offered
        return [tool for tool in backend_tools(deps.backend) if tool.name in names]


def _servers_of(agent: Agent[Any]) -> list[Any]:
    return [server for server in agent.mcp_servers if not isinstance(server, BackendTools)]


async def _listed(agent: Agent[Any], context: RunContextWrapper[Any]) -> list[Any]:
    if not _servers_of(agent):
        return []
    bare = Agent(agent.name, mcp_servers=_servers_of(agent), mcp_config=agent.mcp_config)
    return await bare.get_mcp_tools(context)
