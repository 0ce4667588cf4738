"""A setting that can be given in two places is heard from either, and refused where both are given and differ."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import fields
from itertools import product
from typing import Any

import pytest

from keyturn import Agent, App, MemoryJournal, Policy, Rule, RunConfig, Runner, UsageLimits, UserError, function_tool
from keyturn.agents.settings import ALSO_ARGUMENTS
from keyturn.deep import create_deep_agent
from keyturn.deferred import Agent as DeferredAgent
from keyturn.testing import ScriptedModel, function_call
from tests.playing import Run
from tests.table import each

#: Of each setting that is an argument as well: two values that differ.
TWO: dict[str, tuple[Any, Any]] = {
    "policy": (Policy(Rule("deny", tool="look")), Policy(Rule("allow", tool="look"))),
    "usage_limits": (UsageLimits(requests=3), UsageLimits(requests=4)),
}
#: What has arguments beside a `RunConfig`.
PLACES: dict[str, Callable[..., Any]] = {
    "Runner.run": Runner.run,
    "Runner.run_sync": Runner.run_sync,
    "Runner.run_streamed": Runner.run_streamed,
    "App": App,
    "deferred.Agent": DeferredAgent,
}
#: Arguments of those that are of another scope than the setting of the same name: what every agent of a run has.
OF_THE_AGENT = {"model", "model_settings"}


@function_tool
def look() -> str:
    """Look."""
    return "seen"


def scripted(*replies: Any) -> ScriptedModel:
    return ScriptedModel([*replies, "done"])


def agent(*replies: Any) -> Agent[Any]:
    return Agent("desk", model=scripted(*replies), tools=[look])


def shared(place: str) -> set[str]:
    names = inspect.signature(PLACES[place]).parameters.keys() & {each.name for each in fields(RunConfig)}
    return names - OF_THE_AGENT


def give(place: str, given: dict[str, Any]) -> None:
    """Pass options to one of the places, and run where that is what reads them."""
    if place == "App":
        App([agent()], MemoryJournal(), worker=False, **given)
    elif place == "deferred.Agent":
        DeferredAgent(scripted(), **given).run_sync("go")
    elif place == "Runner.run":
        asyncio.run(Runner.run(agent(), "go", **given))
    else:
        PLACES[place](agent(), "go", **given)


CASES = [(place, name) for place in PLACES for name in sorted(shared(place))]


def test_the_table_has_every_setting_that_is_an_argument_as_well() -> None:
    assert {name for _, name in CASES} == set(ALSO_ARGUMENTS) == set(TWO)


@each(("place", "name"), CASES)
def test_two_values_that_differ_are_refused_and_both_places_are_named(place: str, name: str) -> None:
    one, other = TWO[name]
    setting: dict[str, Any] = {name: other}
    for config in [RunConfig(**setting)] if place == "deferred.Agent" else [RunConfig(**setting), setting]:
        with pytest.raises(UserError, match=rf"^{name}= and run_config=RunConfig\({name}=\.\.\.\) differ: pass one"):
            give(place, {name: one, "run_config": config})


@each(("name", "how"), product(TWO, ["argument", "setting", "both"]))
async def test_one_value_is_heard_from_either_place_and_from_both(name: str, how: str, run: Run) -> None:
    heard: Any = {"policy": Policy(Rule("deny", tool="look")), "usage_limits": UsageLimits(requests=1)}[name]
    given: dict[str, Any] = {} if how == "setting" else {name: heard}
    if how != "argument":
        given["run_config"] = {name: heard}
    made = agent([function_call("look", {})])
    if name == "usage_limits":
        with pytest.raises(Exception, match="requests"):
            await run(made, "go", **given)
    else:
        result = await run(made, "go", **given)
        assert "seen" not in str(result.to_input_list())


async def test_usage_limits_of_one_run_replace_those_of_a_declared_agent() -> None:
    made = create_deep_agent(scripted([function_call("ls", {})]), usage_limits=UsageLimits(requests=1))
    assert (await made.run("go", usage_limits=UsageLimits(requests=2))).output == "done"


async def test_an_app_loses_no_policy_by_a_configuration_that_has_none() -> None:
    deny, allow = TWO["policy"]
    async with App([agent()], MemoryJournal(), policy=deny, worker=False) as app:
        with pytest.raises(UserError, match=r"has no policy, and the app has one: pass RunConfig\(policy=app.policy"):
            app.run_config = RunConfig(workflow_name="other")
        assert app.policy is deny
        app.run_config = RunConfig(policy=allow)
        assert app.policy is allow
        app.policy = None
        app.run_config = RunConfig(workflow_name="other")
        assert app.policy is None
