"""Name agents by path, since a log is data and agents are objects.

The root is its name; every other agent is the path of the first edges that lead to it, breadth first, so
same-named agents are told apart and the same code finds the same agent again in another process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Any
from weakref import WeakValueDictionary

from ...agents.agent import Agent
from ...core.empties import NONE, owned
from ...core.errors import AgentMissing
from ...core.nested_agent import nested_agent


class _Agents(dict[str, Agent[Any]]):
    """Agents by path; one that is not there is an error that says so."""

    __slots__ = ("__weakref__",)

    def __missing__(self, path: str) -> Agent[Any]:
        raise AgentMissing(path)


# By the root's id, of roots that lead to no other agent: the runs of one agent share it, and it goes with the last.
_lone: WeakValueDictionary[int, _Agents] = WeakValueDictionary()


class AgentGraph:
    """Maps the agents that can be reached from one root to their paths."""

    __slots__ = ("_added", "agent", "agent_at", "root")

    def __init__(self, root: Agent[Any]) -> None:
        self.root = root
        self.agent_at = _walked(root)
        #: Return the agent of a path, or raise `AgentMissing`.
        self.agent: Callable[[str], Agent[Any]] = self.agent_at.__getitem__
        # Agents that no edge leads to: only a callback knew them.
        self._added: dict[str, Agent[Any]] = NONE

    def renewed(self, root: Agent[Any]) -> AgentGraph:
        """Return the graph of a root as it is now, whose edges may have changed since this one was walked."""
        graph = AgentGraph(root)
        for path, agent in self._added.items():
            if agent not in graph and path not in graph.agent_at:
                graph._add(path, agent)
        return graph

    def __contains__(self, agent: object) -> bool:
        return any(one is agent for one in self.agent_at.values())

    def path(self, agent: Agent[Any], near: str = "") -> str:
        """Return the path of an agent; one that only a callback knew is added below `near`."""
        if agent not in self:
            self._add(_unique(f"{near or self.root.name}/{agent.name}", self.agent_at), agent)
        return next(path for path, one in self.agent_at.items() if one is agent)

    def _add(self, path: str, agent: Agent[Any]) -> None:
        if not self._added:  # those that were walked may be shared
            self.agent_at = _Agents(self.agent_at)
            self.agent = self.agent_at.__getitem__
        self.agent_at[path] = owned(self, "_added")[path] = agent


def _walked(root: Agent[Any]) -> _Agents:
    if next(_edges(root), None) is None:
        return _alone(root)
    found, seen = _Agents(), set[int]()
    queue: deque[tuple[str, Agent[Any]]] = deque([(root.name, root)])
    while queue:
        path, agent = queue.popleft()
        if id(agent) in seen:
            continue
        seen.add(id(agent))
        path = _unique(path, found)
        found[path] = agent
        queue.extend((f"{path}/{edge}", target) for edge, target in _edges(agent))
    return found


def _alone(root: Agent[Any]) -> _Agents:
    known = _lone.get(id(root))
    if known is None or known.get(root.name) is not root:
        known = _lone[id(root)] = _Agents({root.name: root})
    return known


def _unique(path: str, taken: Container[str]) -> str:
    unique, count = path, 1
    while unique in taken:
        count += 1
        unique = f"{path}~{count}"
    return unique


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
