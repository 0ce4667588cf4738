"""Two policies for one run are an error, and neither of them is dropped."""

from __future__ import annotations

import pytest

from keyturn import Agent, App, Policy, RunConfig, UserError
from keyturn.policies.rules import Rule
from keyturn.testing import ScriptedModel
from tests.playing import play

ALLOWS, DENIES = Policy(Rule("allow")), Policy(Rule("deny"))


async def test_a_run_that_is_given_two_policies_does_not_start(streamed: bool) -> None:
    agent = Agent("desk", model=ScriptedModel(["done"]))
    with pytest.raises(UserError, match="two policies were given"):
        await play(agent, policy=ALLOWS, run_config=RunConfig(policy=DENIES), streamed=streamed)
    assert agent.model.calls == []
    one = await play(agent, policy=DENIES, run_config=RunConfig(policy=DENIES), streamed=streamed)
    assert one.final_output == "done"


def test_an_app_that_is_given_two_policies_is_not_made() -> None:
    with pytest.raises(UserError):
        App([Agent("desk", model=ScriptedModel([]))], "memory://", ALLOWS, run_config=RunConfig(policy=DENIES))
