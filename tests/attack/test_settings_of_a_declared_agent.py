"""A setting that the runs of an app would not hear is refused there, and a rule follows the tool that it is for."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from keyturn import App, Policy, RunConfig, RunHooks, Runner, UsageLimits, UserError, function_tool
from keyturn.deep import create_deep_agent
from keyturn.deferred import Agent, DeferredToolResults
from keyturn.models.scripted.model import function_call
from keyturn.policies.rules import Rule
from keyturn.testing import ScriptedModel
from tests.table import each

DENY = Policy(Rule("deny", tool="pay"))
HEARD_ALONE: dict[str, Any] = {
    "policy": DENY,
    "hooks": RunHooks(),
    "handle_deferred": lambda _context, _requests: DeferredToolResults(),
    "run_config": RunConfig(policy=DENY),
}


def declared(kind: str = "deferred", **options: Any) -> Any:
    @function_tool
    def pay() -> str:
        """Pay."""
        raise AssertionError("nothing lets it run")

    model = ScriptedModel([[function_call("pay", {})], "done"])
    if kind == "deep":
        return create_deep_agent(model, tools=[pay], name="desk", **options)
    return Agent(model, tools=[pay], name="desk", **options)


def taken_by(door: str, agent: Any) -> Any:
    if door == "app":
        return App([agent], "memory://", worker=False)
    core: Any = agent.core_agent()
    if door == "app of the core":
        return App([core], "memory://", worker=False)
    return Runner.run_sync(core, "go") if door == "runner" else core.as_tool("ask", "Asks.")


DOORS = ("app", "app of the core", "runner", "tool")


@each(("kind", "setting", "door"), [(k, s, d) for k in ("deep", "deferred") for s in HEARD_ALONE for d in DOORS])
def test_an_agent_with_a_setting_of_its_own_runs_is_given_to_nothing_else(kind: str, setting: str, door: str) -> None:
    """Given before, or later: a policy that denies would be passed by in silence."""
    if (kind, setting) == ("deep", "run_config"):  # which is made of its usage_limits=
        return
    with pytest.raises(UserError, match=rf"agent 'desk' has {setting}=, which its own run\(\) reads .*: "):
        taken_by(door, declared(kind, **{setting: HEARD_ALONE[setting]}))
    late = declared(kind)
    app = taken_by("app", late)
    with pytest.raises(AttributeError, match=f"'{setting}' of an? (Deep)?Agent cannot be set: only its own run"):
        setattr(late, setting, HEARD_ALONE[setting])
    assert (getattr(late, setting), list(app.agents)) == (None, ["desk"])


@pytest.mark.usefixtures("garbage_of_its_own")
def test_an_agent_that_nothing_else_runs_any_more_takes_settings_of_its_own_runs() -> None:
    agent = declared()
    assert agent.core_agent().name == "desk"
    gc.collect()
    agent.policy = DENY


def test_an_app_refuses_usage_limits_of_a_deep_agent() -> None:
    with pytest.raises(UserError, match="usage_limits="):
        App([declared("deep", usage_limits=UsageLimits(tool_calls=1))], "memory://")


async def test_a_rule_whose_tool_has_another_name_by_now_is_refused() -> None:
    """Nobody would be asked about the tool under its new name."""

    @function_tool
    def pay() -> str:
        """Pay."""
        raise AssertionError("nobody was asked")

    agent = create_deep_agent(
        ScriptedModel([[function_call("send", {})], "done"]), tools=[pay], interrupt_on={"pay": True}
    )
    pay.name = "send"
    with pytest.raises(UserError, match="interrupt_on names 'pay', and there is no such tool"):
        await agent.run("go")
