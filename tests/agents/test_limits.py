"""Limits are checked when they are made, and are the same after a journey through the log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyturn import Agent, Price, RunConfig, UsageLimits, UserError
from tests.table import each

PRICES = {"m": Price(input="0.25", output=2, cached_input=0.1)}


@pytest.mark.parametrize(
    "limits",
    [
        UsageLimits(),
        UsageLimits(requests=0),
        UsageLimits(requests=1, input_tokens=2, output_tokens=3, total_tokens=4, tool_calls=5),
        UsageLimits(cost="0.10", prices=PRICES),
    ],
)
def test_limits_travel_as_data(limits: UsageLimits) -> None:
    data = json.loads(json.dumps(limits.record()))
    assert UsageLimits(**data) == limits
    assert RunConfig(usage_limits=data).usage_limits == limits


@each(
    ("given", "said"),
    [
        ({"requests": -1}, "requests must be a whole number"),
        ({"total_tokens": True}, "total_tokens must be a whole number"),
        ({"tool_calls": 1.5}, "tool_calls must be a whole number"),
        ({"cost": 1}, "give both"),
        ({"prices": PRICES}, "give both"),
        ({"cost": -1, "prices": PRICES}, "UsageLimits cost must be an amount"),
        ({"cost": 1, "prices": {"m": 3}}, "'m' must be a Price, not int"),
        ({"request_limit": 3}, "UsageLimits has no setting 'request_limit'"),
    ],
)
def test_what_is_no_limit_is_refused(given: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        RunConfig(usage_limits=given)


@pytest.mark.parametrize("config", [RunConfig(usage_limits=UsageLimits(requests=1)), {"usage_limits": {"requests": 1}}])
def test_a_nested_agent_has_no_limits_of_its_own(config: Any) -> None:
    with pytest.raises(UserError, match="the whole run's"):
        Agent("a").as_tool("ask_a", "asks", run_config=config)
    assert Agent("a").as_tool("ask_a", "asks", run_config=RunConfig()).run_config is not None
