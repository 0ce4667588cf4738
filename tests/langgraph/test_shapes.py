"""What an interrupt asks, and the form of each answer: of LangChain's middleware, of Agent Inbox, and of questions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyturn.asks.ask import AskState

pytest.importorskip("langgraph", reason="needs the package langgraph")

from keyturn.langgraph.shapes import NotAccepted, shape_of


def state(status: Any, **more: Any) -> AskState:
    return AskState(id="5e1f", key="k", tool="pay", status=status, **({"arguments": '{"to": "ann"}'} | more))


EDITED = {"edited": True, "arguments": '{"to": "ben"}'}


def batch(*allowed: str, args: Any = None) -> Any:
    actions = [{"name": "pay", "args": {"to": "ann"} if args is None else args, "description": "Why not?"}]
    return {"action_requests": actions, "review_configs": [{"action_name": "pay", "allowed_decisions": [*allowed]}]}


def human(**allowed: bool) -> Any:
    return [{"action_request": {"action": "pay", "args": {"to": "ann"}}, "config": allowed, "description": None}]


HUMAN = dict.fromkeys(("allow_ignore", "allow_respond", "allow_edit", "allow_accept"), True)


def test_each_decision_is_written_in_the_form_of_its_program() -> None:
    every = shape_of(batch("approve", "edit", "reject", "respond"))
    inbox = shape_of(human(**HUMAN))
    one, ignored = {"action": "pay", "args": {"to": "ann"}}, {"type": "ignore", "args": None}
    table: list[tuple[AskState, Any, Any]] = [
        (state("approved"), {"type": "approve"}, {"type": "accept", "args": one}),
        (state("claimed", **EDITED), {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "ben"}}},
         {"type": "edit", "args": {"action": "pay", "args": {"to": "ben"}}}),
        (state("rejected", note="No."), {"type": "reject", "message": "No."}, ignored),
        (state("rejected"), {"type": "reject"}, ignored),
        (state("expired"), {"type": "reject", "message": "No decision was made in time."}, ignored),
        (state("not_run"), {"type": "reject", "message": "The call did not run."}, ignored),
        (state("answered", result={"a": 1}), {"type": "respond", "message": '{"a": 1}'},
         {"type": "response", "args": '{"a": 1}'}),
        (state("succeeded", result="ran by hand"), {"type": "respond", "message": "ran by hand"},
         {"type": "response", "args": "ran by hand"}),
    ]  # fmt: skip
    for decided, of_middleware, of_inbox in table:
        assert every.answer([decided]) == {"decisions": [of_middleware]}
        assert inbox.answer([decided]) == [of_inbox]
    assert shape_of(human(**HUMAN)[0]).answer([state("approved")]) == [{"type": "accept", "args": one}]
    question = shape_of("Which city?")
    assert question.answer([state("answered", result=None)]) is None
    assert question.answer([state("approved")]) is True


def test_a_program_is_given_no_decision_that_it_does_not_accept() -> None:
    table: list[tuple[Any, AskState, Any]] = [
        (batch("approve"), state("rejected"), None),
        (batch("approve"), state("answered", result="x"), None),
        (batch("approve"), state("approved", **EDITED), None),
        (batch("reject"), state("approved"), None),
        (batch("approve", "edit"), state("approved", edited=True, arguments="[1]"), None),
        (batch("reject"), state("answered", result="x"), {"type": "reject", "message": "x"}),
        (batch("respond"), state("rejected"), {"type": "respond", "message": "The call was rejected."}),
    ]
    for value, decided, answer in table:
        shape = shape_of(value)
        if answer is None:
            with pytest.raises(NotAccepted):
                shape.answer([decided])
        else:
            assert shape.answer([decided]) == {"decisions": [answer]}
    with pytest.raises(NotAccepted):
        shape_of(human(allow_respond=True)).answer([state("approved")])
    with pytest.raises(NotAccepted, match="must be of type integer"):
        shape_of("How many?", {"type": "integer"}).answer([state("answered", result="many")])


def test_what_is_no_known_shape_to_the_letter_is_a_question() -> None:
    class Odd:
        pass

    unknown: list[Any] = [
        None, 5, [], {}, "yes?", {"city": "Which?"}, Odd(), {"a": Odd()}, {"type": "tool_approval", "name": "pay"},
        {"action_requests": [], "review_configs": []}, {"action_requests": [{"name": "pay", "args": {}}]},
        {**batch("approve"), "review_configs": [{"action_name": "send", "allowed_decisions": ["approve"]}]},
        batch("approve", args="to ann"), batch("approve", args={"amount": float("nan")}),
        batch("approve", args={"amount": {5: "five"}}), [*human(**HUMAN), "more"],
    ]  # fmt: skip
    for value in unknown:
        shape = shape_of(value)
        assert (shape.asks_for_value, shape.calls[0].tool, shape.calls[0].editable) == (True, "question", False)
        assert shape_of(value) == shape
        assert json.loads(shape.calls[0].arguments) is not None


def test_a_call_that_pauses_alone_accepts_what_its_schema_lists() -> None:
    args = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    action = {"type": "object", "properties": {"name": {"const": "pay"}, "args": {"$ref": "#/$defs/pay"}}}
    edit = {"type": "object", "properties": {"type": {"const": "edit"}, "edited_action": {"$ref": "#/$defs/Action"}}}
    approve = {"type": "object", "properties": {"type": {"const": "approve"}}}
    value = {"type": "tool_approval", "tool_call_id": "c1", "name": "pay", "args": {"to": "ann"}, "description": ""}
    schema = {"$defs": {"pay": args, "Action": action, "Edit": edit}, "oneOf": [{"$ref": "#/$defs/Edit"}, approve]}
    [call] = shape_of(value, schema).calls
    assert (sorted(call.accepts), call.schema) == (["approve", "edit"], {**args, "$defs": schema["$defs"]})
    assert shape_of(value, schema).answer([state("approved")]) == {"type": "approve"}
    [alone] = shape_of(value, approve).calls
    assert (alone.accepts, alone.editable) == (("approve",), False)
