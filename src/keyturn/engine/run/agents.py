"""Name agents by path, since a log is data and agents are objects.

The root is its name; every other agent is the path of the first edges that lead to it, breadth first, so
same-named agents are told apart and the same code finds the same agent again in another process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ...agents.agent import Agent
from ...core.errors import AgentMissing
from ...core.nested_agent import nested_agent


class _Agents(dict[str, Agent[Any]]):
    """Agents by path; one that is not there is an error that says so."""

    def __missing__(self, path: str) -> Agent[Any]:
        raise AgentMissing(path)


class AgentGraph:
    """Maps the agents that can be reached from one root to their paths."""

    def __init__(self, root: Agent[Any]) -> None:
        self.root = root
        self.path_of: dict[int, str] = {}
        self.agent_at = _Agents()
        #: Return the agent of a path, or raise `AgentMissing`.
        self.agent: Callable[[str], Agent[Any]] = self.agent_at.__getitem__
        # Agents that no edge leads to: only a callback knew them.
        self._added: dict[str, Agent[Any]] = {}
        self._walk()

    def renewed(self, root: Agent[Any]) -> AgentGraph:
        """Return the graph of a root as it is now, whose edges may have changed since this one was walked."""
        graph = AgentGraph(root)
        for path, agent in self._added.items():
            if id(agent) not in graph.path_of and path not in graph.agent_at:
                graph.path_of[id(agent)] = path
                graph.agent_at[path] = graph._added[path] = agent
        return graph

    def _walk(self) -> None:
        queue: deque[tuple[str, Agent[Any]]] = deque([(self.root.name, self.root)])
        while queue:
            path, agent = queue.popleft()
            if id(agent) in self.path_of:
                continue
            self._name(path, agent)
            path = self.path_of[id(agent)]
            queue.extend((f"{path}/{edge}", target) for edge, target in _edges(agent))

    def _name(self, path: str, agent: Agent[Any]) -> None:
        unique, count = path, 1
        while unique in self.agent_at:
            count += 1
            unique = f"{path}~{count}"
        self.path_of[id(agent)] = unique
        self.agent_at[unique] = agent

    def path(self, agent: Agent[Any], near: str = "") -> str:
        """Return the path of an agent; one that only a callback knew is added below `near`."""
        if id(agent) not in self.path_of:
            self._name(f"{near or self.root.name}/{agent.name}", agent)
            self._added[self.path_of[id(agent)]] = agent
        return self.path_of[id(agent)]


def _edges(agent: Agent[Any]) -> Iterator[tuple[str, Agent[Any]]]:
    for target in agent.handoffs:
        if isinstance(target, Agent):
            yield target.name, target
        elif target.agent is not None:
            yield target.agent.name, target.agent
    for tool in agent.tools:
        nested = nested_agent(tool)
        inner: Any = nested.agent
        if isinstance(inner, Agent):
            yield tool.name, inner
        for name, one in nested.agents.items():
            yield f"{tool.name}/{name}", one
