"""The wrapper carries, answers and remembers; the context of a call shares all of it and copies nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from keyturn.agents.context import AgentHookContext, RunContextWrapper, ToolContext
from keyturn.core.errors import UserError
from keyturn.models.base import Usage


def waiting(name: str, call_id: str, qualified: str | None = None) -> Any:
    return SimpleNamespace(name=name, qualified_name=qualified or name, call_id=call_id)


def test_nobody_has_decided_at_first() -> None:
    wrapper = RunContextWrapper(None)
    assert wrapper.is_tool_approved("pay", "c1") is None
    assert wrapper.get_rejection_message("pay", "c1") is None


def test_a_decision_is_for_one_call() -> None:
    wrapper = RunContextWrapper(None)
    wrapper.approve_tool(waiting("pay", "c1"))
    wrapper.reject_tool(waiting("pay", "c2"), rejection_message="too much")
    assert wrapper.is_tool_approved("pay", "c1") is True
    assert wrapper.is_tool_approved("pay", "c2") is False
    assert wrapper.get_rejection_message("pay", "c2") == "too much"
    assert wrapper.is_tool_approved("pay", "c3") is None
    assert wrapper.is_tool_approved("refund", "c1") is None


def test_the_last_decision_for_a_call_counts() -> None:
    wrapper = RunContextWrapper(None)
    wrapper.reject_tool(waiting("pay", "c1"))
    wrapper.approve_tool(waiting("pay", "c1"))
    assert wrapper.get_approval_status("pay", "c1", tool_namespace="bank", existing_pending=None) is True


def test_a_standing_decision_yields_to_one_for_the_very_call() -> None:
    wrapper = RunContextWrapper(None)
    wrapper.reject_tool(waiting("pay", "c1"))
    wrapper.approve_tool(waiting("pay", "c2"), always_approve=True)
    assert wrapper.is_tool_approved("pay", "c1") is False
    assert wrapper.is_tool_approved("pay", "c9") is True


def test_a_namespaced_tool_answers_to_its_qualified_name() -> None:
    wrapper = RunContextWrapper(None)
    wrapper.approve_tool(waiting("pay", "c1", "bank.pay"))
    assert wrapper.is_tool_approved("bank.pay", "c1") is True


def test_own_decisions_come_before_what_the_run_knows() -> None:
    wrapper = RunContextWrapper(None)
    wrapper.known = lambda tool, call: (False, f"no {tool} {call}")
    assert wrapper.get_rejection_message("pay", "c1", tool_lookup_key="x") == "no pay c1"
    wrapper.approve_tool(waiting("pay", "c1"))
    assert wrapper.is_tool_approved("pay", "c1") is True
    assert wrapper.is_tool_approved("pay", "c2") is False


def test_decisions_wait_for_the_run_in_order() -> None:
    wrapper, first, second = RunContextWrapper(None), waiting("pay", "c1"), waiting("pay", "c2")
    wrapper.approve_tool(first, always_approve=True)
    wrapper.reject_tool(second, True, "never")
    assert [tuple(given) for given in wrapper.decisions] == [
        ("approve", first, True, None),
        ("reject", second, True, "never"),
    ]


@pytest.mark.parametrize("thing", ["c1", None, {"call_id": "c1"}, object()])
def test_only_a_waiting_call_can_be_decided(thing: Any) -> None:
    with pytest.raises(UserError, match="only a waiting call"):
        RunContextWrapper(None).approve_tool(thing)


def test_a_calls_context_shares_what_the_wrapper_has() -> None:
    wrapper = RunContextWrapper({"user": "ann"}, Usage(requests=1), tool_input={"city": "Oslo"})
    context = ToolContext.of(wrapper, tool_name="pay", tool_call_id="c1", tool_arguments="{}", run_id="r")
    assert context.context is wrapper.context
    assert context.usage is wrapper.usage
    assert context.tool_input == {"city": "Oslo"}
    assert (context.tool_name, context.tool_call_id, context.tool_arguments, context.run_id) == ("pay", "c1", "{}", "r")
    assert (context.agent, context.approval, context.tool_call, context.run_config) == (None, None, None, None)
    assert context.idempotency_key == ""
    context.approve_tool(waiting("pay", "c1"))
    assert wrapper.is_tool_approved("pay", "c1") is True


def test_two_calls_of_one_wrapper_stay_apart() -> None:
    wrapper = RunContextWrapper(None)
    first = ToolContext.of(wrapper, tool_name="a", tool_call_id="1", tool_arguments="{}")
    second = ToolContext.of(wrapper, tool_name="b", tool_call_id="2", tool_arguments="[]")
    assert (first.tool_name, second.tool_name) == ("a", "b")
    assert not hasattr(wrapper, "tool_name")


def test_a_context_can_be_made_by_hand_in_the_known_order() -> None:
    usage = Usage()
    context = ToolContext("ctx", usage, "pay", "c1", "{}", {"type": "function_call"}, agent="a")
    assert (context.context, context.usage, context.tool_call) == ("ctx", usage, {"type": "function_call"})
    assert context.turn_input == []
    assert context.agent == "a"


def test_wrappers_are_told_apart_by_identity() -> None:
    assert RunContextWrapper(1) != RunContextWrapper(1)
    assert len({RunContextWrapper(1), RunContextWrapper(1)}) == 2


def test_the_hooks_context_is_the_wrapper_and_generics_are_optional() -> None:
    assert AgentHookContext is RunContextWrapper
    assert RunContextWrapper[int](3).context == 3
    assert ToolContext[int](3).context == 3
