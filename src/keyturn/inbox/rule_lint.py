"""Lint the policy of an app: gather the tools and agents that it has, and hold its rules against them.

One function refuses a policy wherever one is given to an app; the command line and `doctor` show the same complaints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard, TypeVar

from ..agents.agent import Agent
from ..agents.handoff import handoffs_of
from ..agents.reviewer import Reviewer
from ..core.nested_agent import nested_agent
from ..engine.logger import logger
from ..engine.run.agents import AgentGraph
from ..policies.file import PolicyFile
from ..policies.lint import Complaint, Known, KnownTool, lint, refuse
from ..policies.rules import Policy
from ..tools.base import Tool, stands_for_several

Agents = Mapping[str, Agent[Any]]

T = TypeVar("T")


def checked_policy(agents: Agents, policy: object) -> Any:
    """Return a policy, or raise `UserError` where one of its rules can match nothing of an app; log what may not match.

    Called wherever an app is given a policy. A file is checked again whenever it is read again.
    """

    def check(rules: Policy) -> None:
        complaints = lint(rules.rules, known_of(agents))
        refuse(complaints)
        for complaint in complaints:
            logger.warning("policy: %s", complaint)

    if is_really(policy, PolicyFile):
        policy.check_with(check)
    for rules in _rules_of(policy):
        check(rules)
    for agent in _all_agents(agents):
        for tool in agent.tools:  # a nested agent may run under a policy of its own
            for rules in _rules_of(getattr(nested_agent(tool).run_config, "policy", None)):
                check(rules)
    return policy


def complaints_of(agents: Agents, policy: object) -> list[Complaint]:
    """Return what is wrong with the rules of a policy, and what may match nothing."""
    known = known_of(agents)
    whole = policy.policy if is_really(policy, PolicyFile) else policy
    return [complaint for rules in _rules_of(whole) for complaint in lint(rules.rules, known)]


def _rules_of(policy: object) -> Iterator[Policy]:
    """Yield the ordered rules that a policy asks; what is a function of the user's own has none to look at."""
    if is_really(policy, Policy):
        yield policy
    elif is_really(policy, Reviewer) and policy.rules is not None:
        yield policy.rules


def is_really(value: object, kind: type[T]) -> TypeGuard[T]:
    """Return whether a value is of a class, without asking the value, whose `__class__` may be a user's code."""
    return issubclass(type(value), kind)


def _all_agents(agents: Agents) -> list[Agent[Any]]:
    found = {id(agent): agent for root in agents.values() for agent in AgentGraph(root).agent_at.values()}
    return list(found.values())


def parts_of(agents: Agents) -> list[object]:
    """Return the agents and tools that an app has, in order: a rule is held against these very objects.

    >>> parts_of({})
    []
    """
    return [part for agent in _all_agents(agents) for part in (agent, *agent.tools)]


def known_of(agents: Agents) -> Known:
    """Return the tools and agents that an app has, as far as no server must be asked.

    >>> known_of({"desk": Agent("desk")}).agents
    [('desk', 'desk')]
    """
    tools: list[KnownTool] = []
    named: list[tuple[str, str]] = []
    unknown: set[str] = set()
    provided: set[str] = set()
    servers: set[str] = set()
    callers: set[str] = set()
    more = False
    for root in agents.values():
        for path, agent in AgentGraph(root).agent_at.items():
            named.append((agent.name, path))
            more = more or any(handoff.agent is None for handoff in handoffs_of(agent))
            offered = _offered(agent)
            if offered.more:
                unknown.add(path)
            if any(getattr(source, "of_callers", False) for source in agent.mcp_servers):
                callers.add(path)
            provided |= {tool.name for tool in offered.tools if not isinstance(tool, Tool) or tool.hosted}
            servers |= {tool.name for tool in offered.tools if isinstance(tool, Tool) and stands_for_several(tool)}
            tools += [_known(tool, agent.name, path) for tool in offered.tools if _is_one(tool)]
    return Known(tools, named, unknown, provided, more, servers, callers)


class _Offered(NamedTuple):
    """Holds the tools that an agent is known to have, and whether it may have others."""

    tools: list[Any]
    more: bool


def _offered(agent: Agent[Any]) -> _Offered:
    """Return the tools of an agent, its handoffs, and what its sources say that they bring; a server is not asked."""
    tools: list[Any] = [*agent.tools, *handoffs_of(agent)]
    asked = [getattr(source, "known_tools", None) for source in agent.mcp_servers]
    for known in asked:
        tools += [] if known is None else known(agent)
    several = any(isinstance(tool, Tool) and stands_for_several(tool) for tool in tools)
    return _Offered(tools, None in asked or several)


def _is_one(tool: object) -> bool:
    """Return whether rules are asked of a tool by its own name; what is several, such as a server, has others."""
    return isinstance(tool, Tool) and not tool.hosted and not stands_for_several(tool)


def _known(tool: Tool, agent: str, path: str) -> KnownTool:
    """Return a tool as rules see it; a kind whose calls have other arguments than its function says so itself."""
    schema = getattr(tool, "argument_schema", None) or getattr(tool, "params_json_schema", None)
    return KnownTool(tool.name, tool.kind, agent, path, schema, tool.risk, tool.read_only)
