"""Know which roles there are, so that a page offers them and does not create another one by a slip of the keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from ...agents.agent import Agent
from ...application.app import App
from ...core.approval import Approval
from ...core.errors import UserError
from ...directory.state import ADMIN, Directory
from ...engine.run.agents import AgentGraph
from ...policies.rule import Rule
from .agents import rules_of


class UnknownRole(UserError):
    """Raised where a role is typed that no user, group, tool or rule has.

    >>> raise UnknownRole("finanse", ["finance"])
    Traceback (most recent call last):
    ...
    keyturn.server.web.roles.UnknownRole: No user, group, tool or rule has the role 'finanse'. Did you mean 'finance'?
    """

    def __init__(self, role: str, known: Iterable[str]) -> None:
        close = get_close_matches(role, list(known), 1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        super().__init__(f"No user, group, tool or rule has the role {role!r}.{meant}")


def known_roles(app: App, directory: Directory) -> list[str]:
    """Return the roles that users and groups have, and those that tools and rules require."""
    found = {ADMIN, *required_by(rules_of(app.policy))}
    found.update(*(person.roles | person.claimed_roles for person in directory.people.values() if person.here))
    found.update(*directory.groups.values())
    for root in app.agents.values():
        found.update(_of_agents(root))
    return sorted(found)


def required_by(rules: Iterable[Rule]) -> set[str]:
    """Return the roles that rules require of approvers, those of later steps and of escalations as well.

    >>> later = Approval(role="finance", expires="1h", on_expiry="escalate", escalate_to=["role:board"])
    >>> made = Approval(steps=[Approval(role="manager"), later])
    >>> sorted(required_by([Rule("ask", tool="pay", approval=made)]))
    ['board', 'finance', 'manager']
    """
    return {role for rule in rules if rule.approval is not None for role in _of_terms(rule.approval)}


def check_known(names: Iterable[str], known: list[str]) -> None:
    """Refuse a role that there is not."""
    for name in names:
        if name not in known:
            raise UnknownRole(name, known)


def _of_agents(root: Agent[Any]) -> Iterator[str]:
    for agent in AgentGraph(root).agent_at.values():
        for tool in agent.tools:
            terms: object = getattr(tool, "approval", None)
            if isinstance(terms, Approval):
                yield from _of_terms(terms)


def _of_terms(terms: Approval) -> Iterator[str]:
    for step in terms.in_turn:
        yield from (role for role in (step.role, step.break_glass, step.escalated().role) if role)
