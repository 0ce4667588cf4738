"""Settings are checked when they are made, as an object or as a dict, at every level."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from keyturn.agents.context import RunContextWrapper
from keyturn.agents.settings import (
    RunConfig,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    ToolErrorFormatterArgs,
    ToolExecutionConfig,
    check_error_handlers,
    handled,
)
from keyturn.core.errors import MaxTurnsExceeded, UserError
from keyturn.models.base import ModelSettings
from keyturn.sessions.base import SessionSettings
from tests.table import each

FAILED = RunErrorHandlerInput(MaxTurnsExceeded("10 turns"), RunContextWrapper(None), run_data=None)


def test_defaults_are_the_known_ones() -> None:
    config = RunConfig()
    assert (config.workflow_name, config.tracing_disabled, config.nest_handoff_history) == (
        "Agent workflow",
        False,
        False,
    )
    assert (config.tool_not_found_behavior, config.paused_session) == ("raise_error", "supersede")
    assert config.model is config.model_settings is config.policy is config.tool_execution is None


def test_a_dict_is_as_good_as_the_object_at_every_level() -> None:
    config = RunConfig.of(
        {
            "model": "gpt-5",
            "model_settings": {"temperature": 0.5},
            "tool_execution": {"max_function_tool_concurrency": 2},
            "session_settings": {"limit": 5},
        }
    )
    assert config.model_settings == ModelSettings(temperature=0.5)
    assert config.tool_execution == ToolExecutionConfig(2)
    assert config.session_settings == SessionSettings(5)


@each(
    ("given", "said"),
    [
        ({"tracing_disbled": True}, "RunConfig has no setting 'tracing_disbled'"),
        ({"model_settings": {"temprature": 1}}, "ModelSettings has no setting 'temprature'"),
        ({"tool_execution": {"max": 1}}, "ToolExecutionConfig has no setting 'max'"),
        ({"tool_execution": 3}, "tool_execution must be a ToolExecutionConfig or a dict, not int"),
        ({"paused_session": "ignore"}, "paused_session must be 'supersede', 'refuse' or 'queue', not 'ignore'"),
        ({"tool_not_found_behavior": "skip"}, "tool_not_found_behavior must be"),
        ({"tool_name_collision_policy": "warn"}, "tool_name_collision_policy must be 'error', not 'warn'"),
        ({"tool_error_formatter": "text"}, "tool_error_formatter must be a callable or None"),
        ("fast", "run_config must be a RunConfig or a dict, not str"),
    ],
)
def test_what_nobody_knows_is_an_error(given: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        RunConfig.of(given)


def test_the_run_gets_an_object_of_its_own() -> None:
    mine = RunConfig(workflow_name="Refunds", policy=len)
    taken = RunConfig.of(mine)
    assert taken == mine
    assert taken is not mine
    taken.policy = None
    assert mine.policy is len
    assert RunConfig.of(None) == RunConfig()


@pytest.mark.parametrize("most", [0, -1, 1.5, True, "2"])
def test_concurrency_is_a_whole_number_of_at_least_one(most: Any) -> None:
    with pytest.raises(UserError, match="max_function_tool_concurrency"):
        ToolExecutionConfig(max_function_tool_concurrency=most)


def test_early_guardrails_are_a_switch() -> None:
    with pytest.raises(UserError, match="pre_approval_tool_input_guardrails must be True or False"):
        ToolExecutionConfig(pre_approval_tool_input_guardrails="yes")


def test_formatter_arguments_keep_their_places() -> None:
    names = [each.name for each in dataclasses.fields(ToolErrorFormatterArgs)]
    assert names == ["kind", "tool_type", "tool_name", "call_id", "default_message", "run_context", "error"]


@each(
    ("answer", "result"),
    [
        (None, None),
        ("sorry", RunErrorHandlerResult("sorry")),
        ({"final_output": "sorry"}, RunErrorHandlerResult("sorry")),
        ({"final_output": 3, "include_in_history": False}, RunErrorHandlerResult(3, False)),
        ({"answer": 3}, RunErrorHandlerResult({"answer": 3})),
        ({"final_output": 3, "answer": 4}, RunErrorHandlerResult({"final_output": 3, "answer": 4})),
        (RunErrorHandlerResult("done", False), RunErrorHandlerResult("done", False)),
    ],
)
async def test_a_handler_may_answer_in_several_ways(answer: Any, result: RunErrorHandlerResult | None) -> None:
    async def later(data: Any) -> Any:
        assert data is FAILED
        return answer

    assert RunErrorHandlerResult.of(answer) == result
    assert await handled({"max_turns": lambda data: answer}, "max_turns", FAILED) == result
    assert await handled({"max_turns": later}, "max_turns", FAILED) == result


async def test_without_a_handler_nothing_is_answered() -> None:
    assert await handled(None, "max_turns", FAILED) is None
    assert await handled({"model_refusal": lambda data: "x"}, "max_turns", FAILED) is None


def test_handlers_are_for_errors_that_are_raised() -> None:
    check_error_handlers(None)
    check_error_handlers({"max_turns": print, "model_refusal": print, "invalid_final_output": print})
    with pytest.raises(UserError, match="has no kind 'max_turn'; it is one of max_turns, usage_limit"):
        check_error_handlers({"max_turn": print})
    with pytest.raises(UserError, match="must be callable, not str"):
        check_error_handlers({"max_turns": "sorry"})
