"""Grants: refused where they could not be kept, and a fact that nobody else can change."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from keyturn import Agent, Runner, function_tool
from keyturn.core.errors import UserError
from keyturn.core.events import GrantTerms
from keyturn.core.people import Decider
from keyturn.core.predicates.predicate import holds
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.policies.grants import Grant
from tests.table import each

HOUR = 3_600_000


def test_a_grant_without_limits() -> None:
    terms = Grant().terms("g1", "desk", "5e1f", 1_000)
    assert terms == GrantTerms("g1", "desk", "5e1f")
    assert (terms.verdict, terms.where, terms.expires_at, terms.uses) == ("approve", None, None, None)


def test_a_grant_is_for_one_tool_of_one_agent_from_now_on() -> None:
    grant = Grant({"amount": {"le": 100}}, "2h", 10)
    terms = grant.terms(
        "g1", "desk/billing", "5e1f", now=5, verdict="reject", message="not today", decider=Decider("ada")
    )
    assert terms == GrantTerms(
        "g1", "desk/billing", "5e1f", "reject", {"amount": {"le": 100}}, 5 + 2 * HOUR, 10, "not today", Decider("ada")
    )


@each(
    ("limits", "says"),
    [({"where": {"amount": {"atmost": 5}}}, "unknown comparison"), ({"where": "amount <= 5"}, "maps the names"),
     ({"where": {"amount": float("nan")}}, "JSON"), ({"where": {"command": {"matches": "(a+)+"}}}, "too long"),
     ({"expires": "soon"}, "duration"), ({"expires": 0}, "duration"), ({"expires": -1}, "duration"),
     ({"expires": True}, "duration"), ({"expires": ""}, "duration"), ({"uses": 0}, "uses"), ({"uses": -1}, "uses"),
     ({"uses": True}, "uses"), ({"uses": False}, "uses"), ({"uses": 2.0}, "uses"), ({"uses": "3"}, "uses")],
)  # fmt: skip
def test_a_grant_that_could_not_be_kept_is_refused(limits: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Grant(**limits)


@pytest.mark.parametrize("verdict", ["ask", "", "allow", None, True])
def test_a_grant_approves_or_rejects(verdict: Any) -> None:
    with pytest.raises(UserError, match="must approve or reject"):
        Grant().terms("g1", "desk", "5e1f", 0, verdict=verdict)


def test_a_grant_cannot_be_widened_afterwards() -> None:
    people, bounds = ["ada"], {"le": 100}
    where: dict[str, Any] = {"to": {"one_of": people}, "amount": bounds, "tags": people}
    grant = Grant(where)
    terms = grant.terms("g1", "desk", "5e1f", 0)
    people.append("mallory")
    bounds["le"] = 10**9
    where.clear()
    for kept in (grant.where, terms.where):
        assert kept == {"to": {"one_of": ["ada"]}, "amount": {"le": 100}, "tags": ["ada"]}
    assert isinstance(terms.where, dict)
    terms.where.clear()
    assert grant.where, "a fact does not share its parts with the grant it was made of"
    with pytest.raises(dataclasses.FrozenInstanceError):
        grant.uses = 5  # pyright: ignore[reportAttributeAccessIssue]  # that it cannot be set is the test


@pytest.mark.parametrize("where", [{"x": {"one_of": (1, 2)}}, MappingProxyType({"x": MappingProxyType({"le": 2})}), {}])
def test_a_grant_means_the_same_after_it_was_written_down(where: Any) -> None:
    terms = Grant(where).terms("g1", "desk", "5e1f", 0)
    read = msgspec.json.decode(msgspec.json.encode(terms), type=GrantTerms)
    assert read == terms
    for value in (1, 2, 3, "1", True):
        assert holds(read.where, {"x": value}) == holds(where, {"x": value})


@each(
    ("where", "says"),
    [
        ({"amuont": {"le": 100}}, "no argument 'amuont'; did you mean 'amount'"),
        ({"tags": {"matches": "x"}}, "'tags' is a list, which 'matches' cannot compare: write {'any': "),
        ({"tags": "x"}, "'tags' is a list, which 'eq' cannot compare"),
    ],
)
async def test_a_grant_that_misreads_the_call_it_is_given_with_is_refused(where: Any, says: str) -> None:
    @function_tool(needs_approval=True)
    def pay(amount: int, tags: list[str]) -> str:
        """Pay."""
        return f"{amount} {tags}"

    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 5, "tags": ["x"]})]]), tools=[pay])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    with pytest.raises(UserError) as caught:
        state.approve(result.interruptions[0], grant=Grant(where=where))
    assert says in str(caught.value)
    state.approve(result.interruptions[0], grant=Grant(where={"tags": {"any": {"matches": "x"}}, "amount": {"le": 9}}))
