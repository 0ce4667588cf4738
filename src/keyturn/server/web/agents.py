"""The agents and their tools: which calls ask people and why, on which terms, and what each tool says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from fastapi import APIRouter
from starlette.responses import Response

from ...agents.agent import Agent
from ...core.approval import Approval
from ...core.nested_agent import nested_agent
from ...engine.run.agents import AgentGraph
from ...policies.file import PolicyFile
from ...policies.rule import Rule
from ...policies.rules import Policy
from ...policies.tool_names import is_named
from ...render.escape import quote
from ...tools.ask_user import is_question
from .form import AdminPage
from .pages import page
from .shown import VisibleHtml, ready
from .words import terms_words

router = APIRouter(include_in_schema=False)


class ToolRow(NamedTuple):
    """Holds one tool: its kind, when it asks and on which terms, its risk, other facts, and rules that name it."""

    name: str
    kind: str
    asks: str
    why: str
    terms: list[VisibleHtml]
    risk: str
    facts: list[VisibleHtml]
    rules: list[int]


class AgentRow(NamedTuple):
    """Holds one agent: its path from a root, its model, its tools, and what else it brings along."""

    path: str
    name: str
    model: str
    tools: list[ToolRow]
    servers: list[str]
    hands_to: list[str]
    policy: bool


@router.get("/agents")
async def agents_page(at: AdminPage) -> Response:
    """Show the agents and their tools."""
    rules = rules_of(at.app.policy)
    found = [row for root in at.app.agents.values() for row in _agents(root, rules)]
    return page(at, "agents.html", agents=found, policy=at.app.policy is not None, known=bool(rules))


def rules_of(policy: object) -> tuple[Rule, ...]:
    """Return the rules of a policy that has some.

    >>> rules_of(None)
    ()
    """
    made = policy.policy if isinstance(policy, PolicyFile) else policy
    return tuple(made.rules) if isinstance(made, Policy) else ()


def _agents(root: Agent[Any], rules: tuple[Rule, ...]) -> Iterator[AgentRow]:
    for path, agent in AgentGraph(root).agent_at.items():
        tools = [_tool(tool, path, agent.name, rules) for tool in agent.tools]
        hands = [str(getattr(each, "agent_name", "") or getattr(each, "name", "")) for each in agent.handoffs]
        servers = [str(getattr(each, "name", "") or type(each).__name__) for each in agent.mcp_servers]
        yield AgentRow(path, agent.name, _model(agent), tools, servers, hands, agent.own_policy() is not None)


def _model(agent: Agent[Any]) -> str:
    model: object = agent.model
    if model is None:
        return "the default model"
    return model if isinstance(model, str) else str(getattr(model, "model", "") or type(model).__name__)


def _tool(tool: Any, path: str, agent: str, rules: tuple[Rule, ...]) -> ToolRow:
    gate: object = getattr(tool, "needs_approval", None)
    asks, why = _asks(tool, gate)
    about = [n for n, rule in enumerate(rules, 1) if _means(rule, tool, path, agent)]
    kind = str(getattr(tool, "kind", "") or getattr(tool, "provider", "") or type(tool).__name__)
    risk: object = getattr(tool, "risk", None)
    approval: Approval | None = getattr(tool, "approval", None)
    terms = terms_words(approval) if gate else []
    if terms and approval is not None and not approval.limits_deciders:
        terms = [ready("any user may decide"), *terms]
    return ToolRow(str(tool.name), kind, asks, why, terms, str(risk or ""), list(_facts(tool)), about)


def _asks(tool: object, gate: object) -> tuple[str, str]:
    if not hasattr(tool, "needs_approval"):
        return "unknown", "the provider runs it: no gate sees its calls"
    if callable(gate):
        named = getattr(gate, "__name__", "") or type(gate).__name__
        return (
            "ask",
            f"depending on the call: {named}() decides"
            if named != "<lambda>"
            else "depending on the call: the program decides",
        )
    if gate:
        return "ask", "every call"
    if is_question(tool):
        return "asks", "every call is a question that an approver answers"
    return "allow", "its own setting requires no approval"


def _facts(tool: object) -> Iterator[VisibleHtml]:
    if getattr(tool, "read_only", False):
        yield ready("changes nothing")
    if getattr(tool, "idempotent", False):
        yield ready("may be repeated")
    elif callable(getattr(tool, "check", None)):
        yield ready("can tell whether a lost call ran")
    secrets = cast("tuple[str, ...]", getattr(tool, "secrets", ()))
    if secrets:
        yield ready(f"hides {', '.join(quote(each) for each in secrets)}")
    inner = nested_agent(tool).agent
    if isinstance(inner, Agent):
        yield ready(f"agent {quote(inner.name)} answers")
    if getattr(tool, "editable", True) is False:
        yield ready("nobody may edit its arguments")


def _means(rule: Rule, tool: Any, path: str, agent: str) -> bool:
    """Return whether a rule may be about calls of a tool, as far as names and facts tell."""
    named = rule.names(str(tool.name)) and (is_named(rule.agent, agent) or is_named(rule.agent, path))
    kind = rule.kind in (None, getattr(tool, "kind", None))
    risk = rule.risk in (None, getattr(tool, "risk", None))
    reads = rule.read_only in (None, getattr(tool, "read_only", False))
    return named and kind and risk and reads
