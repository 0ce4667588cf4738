"""A handoff is a tool that leads to an agent: its name, its arguments, its callback, and one tool per target."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from keyturn.agents.agent import Agent
from keyturn.agents.context import RunContextWrapper
from keyturn.agents.handoff import Handoff, HandoffInputData, handoff, handoffs_of
from keyturn.core.errors import UserError
from keyturn.tools.base import Handover, InvalidArguments, tool_digest
from tests.table import each

CONTEXT = RunContextWrapper("ctx")


class Escalation(BaseModel):
    """Why it is escalated."""

    reason: str = Field(description="in one sentence")
    urgent: bool = False


def call(arguments: str) -> dict[str, str]:
    return {"type": "function_call", "call_id": "c1", "name": "x", "arguments": arguments}


async def go(made: Handoff[Any, Any], arguments: str = "") -> Handover:
    return await made.invoke(CONTEXT, made.prepare(call(arguments)))


def test_name_and_description_come_from_the_agent() -> None:
    made = handoff(Agent("Refund Agent", handoff_description="Handles refunds."))
    assert made.tool_name == made.name == "transfer_to_refund_agent"
    assert made.tool_description == "Handoff to the Refund Agent agent to handle the request. Handles refunds."
    assert (made.agent_name, made.kind, made.after_siblings, made.needs_approval) == (
        "Refund Agent",
        "handoff",
        True,
        False,
    )
    assert made.idempotent
    assert made.is_enabled is True
    other = handoff(Agent("x"), tool_name_override="ask_x", tool_description_override="")
    assert (other.name, other.description) == ("ask_x", "")


def test_the_contracts_fields_in_its_order() -> None:
    names = [each.name for each in dataclasses.fields(Handoff) if each.init]
    assert names == [
        "tool_name",
        "tool_description",
        "input_json_schema",
        "on_invoke_handoff",
        "agent_name",
        "input_filter",
        "nest_handoff_history",
        "strict_json_schema",
        "is_enabled",
    ]


@pytest.mark.parametrize("arguments", ["", "{}", "null", "not json", '{"reason": "because"}'])
async def test_without_an_input_whatever_the_model_wrote_counts_as_none(arguments: str) -> None:
    target: Agent[Any] = Agent("b")
    made = handoff(target)
    prepared = made.prepare(call(arguments))
    assert (prepared.text, prepared.params) == ("{}", {})
    answer = await made.invoke(CONTEXT, prepared)
    assert answer.agent is target
    assert json.loads(answer.text) == {"assistant": "b"}
    assert made.output(call(arguments), answer) == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": '{"assistant": "b"}',
    }


async def test_the_callback_is_told() -> None:
    seen: list[Any] = []

    async def later(context: Any) -> None:
        seen.append(context)

    await go(handoff(Agent("b"), on_handoff=seen.append))
    await go(handoff(Agent("b"), on_handoff=later))
    assert seen == [CONTEXT, CONTEXT]


async def test_the_callback_gets_the_input_as_an_object() -> None:
    seen: list[Any] = []

    async def later(context: Any, given: Escalation) -> None:
        seen.append(given)

    for callback in (lambda context, given: seen.append(given), later):
        made = handoff(Agent("b"), on_handoff=callback, input_type=Escalation)
        assert made.prepare(call('{"reason": "fraud"}')).text == '{"reason":"fraud","urgent":false}'
        await go(made, '{"reason": "fraud"}')
    assert seen == [Escalation(reason="fraud")] * 2
    assert made.input_json_schema["properties"]["reason"]["description"] == "in one sentence"
    assert made.input_json_schema["additionalProperties"] is False


@each("arguments", ["", "{}", "null", "[]", '{"reason": 3}', '{"reason": "a", "reason": "b"}', "{"])
def test_an_input_that_does_not_fit_is_refused_before_anything_runs(arguments: str) -> None:
    made = handoff(Agent("b"), on_handoff=lambda context, given: None, input_type=Escalation)
    with pytest.raises(InvalidArguments, match="The arguments of transfer_to_b are invalid"):
        made.prepare(call(arguments))


@each(
    ("options", "said"),
    [
        ({"on_handoff": lambda: None}, "on_handoff must take one argument: the context"),
        ({"on_handoff": lambda context, given: None}, "on_handoff must take one argument: the context"),
        (
            {"on_handoff": lambda context: None, "input_type": Escalation},
            "on_handoff must take two arguments: the context and the input",
        ),
        ({"input_type": Escalation}, "input_type needs an on_handoff that takes the input"),
        ({"on_handoff": "log"}, "on_handoff must be callable, not str"),
        ({"is_enabled": "no"}, "is_enabled must be True, False or a callable"),
        ({"on_handoff": lambda context, given: None, "input_type": str}, "its input type must be a BaseModel"),
    ],
)
def test_wrong_declarations_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match="transfer_to_b") as raised:
        handoff(Agent("b"), **options)
    assert said in str(raised.value)


def test_a_handoff_leads_to_an_agent() -> None:
    with pytest.raises(UserError, match="must lead to an agent, not to str"):
        handoff("b")


async def test_a_hand_made_handoff_gets_the_models_own_text() -> None:
    seen: list[Any] = []
    target: Agent[Any] = Agent("b")

    async def choose(context: Any, arguments: str) -> Agent[Any]:
        seen.append(arguments)
        return target

    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    made: Handoff[Any, Any] = Handoff("route", "Routes.", schema, choose, "b")
    assert made.agent is None
    assert (await go(made, '{"to":  "b"}')).agent is target
    assert seen == ['{"to":  "b"}']
    with pytest.raises(InvalidArguments, match="must be a JSON object"):
        made.prepare(call("[]"))


async def test_a_hand_made_handoff_to_nowhere_is_an_error() -> None:
    async def nowhere(context: Any, arguments: str) -> Any:
        return "b"

    with pytest.raises(UserError, match="handoff 'route' must lead to an agent, not to str"):
        await go(Handoff("route", "", {}, nowhere, "b"))


def test_a_copy_still_knows_where_it_leads() -> None:
    target: Agent[Any] = Agent("b")
    copy = dataclasses.replace(handoff(target), tool_description="Other words.")
    assert copy.agent is target
    assert copy.description == "Other words."


def test_its_digest_changes_with_what_it_is() -> None:
    made = handoff(Agent("b"))
    before, spec = tool_digest(made), made.spec()
    assert made.spec() is spec
    made.tool_description = "Other words."
    assert tool_digest(made) != before
    assert made.params_json_schema is made.input_json_schema


def test_the_preview_says_who_goes_on() -> None:
    made = handoff(Agent("b"), on_handoff=lambda context, given: None, input_type=Escalation)
    text, arguments = made.preview({"reason": "fraud", "urgent": False}).blocks
    assert "b" in text.text
    assert arguments.value == {"reason": "fraud", "urgent": False}
    assert len(handoff(Agent("b")).preview({}).blocks) == 1


def test_a_plain_agent_is_wrapped_once_per_owner() -> None:
    billing: Agent[Any] = Agent("billing")
    own = handoff(Agent("faq"))
    first: Agent[Any] = Agent("first", handoffs=[billing, own])
    second: Agent[Any] = Agent("second", handoffs=[billing])
    made = handoffs_of(first)
    assert [each.name for each in made] == ["transfer_to_billing", "transfer_to_faq"]
    assert made[1] is own
    assert handoffs_of(first) == made
    assert handoffs_of(second)[0] is not made[0]
    assert handoffs_of(second)[0].agent is billing
    assert handoffs_of(first.clone(name="third"))[0] is not made[0]


def test_a_renamed_target_is_wrapped_anew_and_late_entries_are_seen() -> None:
    billing: Agent[Any] = Agent("billing")
    owner: Agent[Any] = Agent("owner", handoffs=[billing])
    before = handoffs_of(owner)[0]
    billing.handoff_description = "Knows invoices."
    after = handoffs_of(owner)[0]
    assert after is not before
    assert after.description.endswith("Knows invoices.")
    owner.handoffs.append("nobody")
    with pytest.raises(UserError, match="handoffs of agent 'owner': an entry must be"):
        handoffs_of(owner)


def test_agents_may_hand_over_to_each_other() -> None:
    one: Agent[Any] = Agent("one")
    two: Agent[Any] = Agent("two", handoffs=[one])
    one.handoffs.append(two)
    assert handoffs_of(one)[0].agent is two
    assert handoffs_of(two)[0].agent is one
    assert "one" in repr(one)


def test_input_data_is_changed_by_cloning() -> None:
    data = HandoffInputData("hi", ("a",), ("b",))
    clone = data.clone(new_items=())
    assert (clone.input_history, clone.pre_handoff_items, clone.new_items) == ("hi", ("a",), ())
    assert data.new_items == ("b",)
    assert data.run_context is data.input_items is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.new_items = ()
