"""A setting that the runs of an app would not hear is refused there, and a rule follows the tool that it is for."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import App, Policy, RunConfig, RunHooks, UsageLimits, UserError, function_tool
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


@each("setting", HEARD_ALONE)
async def test_an_app_refuses_an_agent_with_a_setting_of_its_own_runs(setting: str) -> None:
    """Given before, or later: a policy that denies would be passed by in silence."""
    with pytest.raises(UserError, match=f"agent 'desk' has {setting}=, which its own"):
        App([declared(**{setting: HEARD_ALONE[setting]})], "memory://")
    late = declared()
    async with App([late], "memory://", worker=False) as app:
        setattr(late, setting, HEARD_ALONE[setting])
        with pytest.raises(UserError, match=f"{setting}="):
            await app.start("desk", "go")


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
