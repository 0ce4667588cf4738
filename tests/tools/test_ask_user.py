"""The tool by which a model asks a person: what people see, which answers are taken, what the model reads."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from keyturn import Agent, Json, RunState, Text, ask_user
from keyturn.core.items import Item
from keyturn.models.scripted.model import function_call
from keyturn.render import html, terminal
from keyturn.testing.suites.tool_asking import HOSTILE
from keyturn.testing.suites.tool_case import ToolCase
from keyturn.tools.base import InvalidArguments


class Stay(BaseModel):
    """What a guest wants."""

    nights: int = Field(gt=0)
    sea: bool = False


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class TestAskUser(ToolCase):
    """It has no effect of its own, so that the suite of tools, which counts effects, is not about it."""

    def make_tool(self, effects: Any, **settings: Any) -> Any:
        return ask_user(**settings)

    def call(self, label: str, variant: int = 0) -> Item:
        return function_call("ask_user", {"question": f"Question {variant}?"}, call_id=label)

    def asked(self, tool: Any, **arguments: Any) -> RunState[Any]:
        """A run that waits for an answer."""
        call = function_call(tool.name, {"question": "Which colour?", **arguments}, call_id="q1")
        result = self.run(self.build(tool, [call]), "go")
        assert [item.kind for item in result.interruptions] == ["external"]
        return result.to_state()

    def refused_to_take(self, state: RunState[Any], answer: Any) -> RunState[Any]:
        """Give an answer that is not taken: the call asks again, and the model hears nothing yet."""
        state.answer(state.get_interruptions()[0], answer)
        result = self.run(self.agent, state)
        [item] = result.interruptions
        assert item.kind == "external"
        assert item.requests["problem"]
        assert item.preview.blocks[0] == Text(item.requests["problem"], label="the previous answer was not accepted")
        assert len(self.model.calls) == 1
        return result.to_state()

    def taken(self, state: RunState[Any], answer: Any) -> Any:
        """Give an answer that is taken; what the model reads."""
        state.answer(state.get_interruptions()[0], answer)
        result = self.run(self.agent, state)
        assert result.final_output == "done: q1"
        return next(
            item["output"] for item in self.model.calls[-1].input if item.get("call_id") == "q1" and "output" in item
        )

    def test_a_question_and_its_answer(self) -> None:
        state = self.asked(ask_user())
        [item] = state.get_interruptions()
        assert item.requests == {"question": "Which colour?"}
        assert item.preview.blocks == (Text("Which colour?", label="the model asks, in its own words"),)
        assert self.taken(state, "Something warm") == "Something warm"

    def test_a_question_survives_its_process(self) -> None:
        state = self.asked(ask_user(), choices=["Blue", "Red"])
        before = state.get_interruptions()[0]
        agent = self.agent
        state = self.saved(state, agent)
        [item] = state.get_interruptions()
        assert (item.requests, item.preview, item.digest) == (before.requests, before.preview, before.digest)
        assert self.taken(self.saved(self.refused_to_take(state, "Green"), agent), "Red") == "Red"

    @pytest.mark.parametrize("wrong", ["Green", "blue", " Blue", "", None, 0, ["Blue"], {"Blue": 1}, True])
    def test_an_answer_is_one_of_the_choices(self, wrong: Any) -> None:
        state = self.asked(ask_user(), choices=["Blue", "Red"])
        assert state.get_interruptions()[0].preview.blocks[1] == Json(["Blue", "Red"], label="choices")
        again = self.refused_to_take(state, wrong)
        assert again.get_interruptions()[0].requests["choices"] == ["Blue", "Red"]
        assert self.taken(self.refused_to_take(again, "Yellow"), "Blue") == "Blue"

    @pytest.mark.parametrize("empty", ["", None])
    def test_nothing_is_no_answer(self, empty: Any) -> None:
        assert self.taken(self.refused_to_take(self.asked(ask_user()), empty), "Red") == "Red"

    @pytest.mark.parametrize("choices", [None, []])
    def test_no_choices_are_no_choices(self, choices: Any) -> None:
        assert self.taken(self.asked(ask_user(), choices=choices), "Any") == "Any"

    @pytest.mark.parametrize(
        ("message", "told"), [(None, "not answered."), ("ask my boss", "not answered: ask my boss")]
    )
    def test_the_model_hears_that_nobody_will_answer(self, message: str | None, told: str) -> None:
        state = self.asked(ask_user())
        state.reject(state.get_interruptions()[0], rejection_message=message)
        assert self.run(self.agent, state).final_output == "done: q1"
        assert told in self.told("q1")

    @pytest.mark.parametrize(
        ("answer_type", "wrong", "right", "read"),
        [
            (int, "many", 3, "3"),
            (int, 1.5, "3", "3"),
            (bool, "perhaps", True, "True"),
            (Stay, {"nights": 0}, {"nights": 2}, "{'nights': 2, 'sea': False}"),
            (Stay, "two nights", '{"nights": 2, "sea": true}', "{'nights': 2, 'sea': True}"),
            (Literal["small", "large"], "huge", "small", "small"),
            (Size, "huge", "large", "large"),
            (list[str], "Ada", ["Ada", "Bob"], "['Ada', 'Bob']"),
            (str, 3, "3", "3"),
            (int | None, "x", None, "None"),
        ],
    )
    def test_an_answer_fits_its_type(self, answer_type: Any, wrong: Any, right: Any, read: str) -> None:
        tool = ask_user(answer_type=answer_type)
        state = self.asked(tool)
        assert state.get_interruptions()[0].requests["schema"]
        again = self.refused_to_take(self.saved(state, self.agent), wrong)
        assert self.taken(again, right) == read

    def test_the_choices_of_a_type_are_shown_as_choices(self) -> None:
        for answer_type in (Literal["small", "large"], Size):
            item = self.asked(ask_user(answer_type=answer_type)).get_interruptions()[0]
            assert item.requests["choices"] == ["small", "large"]
            assert Json(["small", "large"], label="choices") in item.preview.blocks

    def test_what_is_wrong_is_said_in_words_for_people(self) -> None:
        item = self.refused_to_take(self.asked(ask_user(answer_type=Stay)), {"nights": 0}).get_interruptions()[0]
        assert item.requests["problem"] == "nights: Input should be greater than 0"

    def test_the_model_cannot_choose_for_a_person(self) -> None:
        """With a type of the developer's the model has no say in what may be answered."""
        assert list(ask_user(answer_type=int).params_json_schema["properties"]) == ["question"]
        with pytest.raises(InvalidArguments):
            ask_user(answer_type=int).prepare({"arguments": '{"question": "?", "choices": ["a"]}'})

    @pytest.mark.parametrize("arguments", ["{}", '{"question": 3}', '{"question": "?", "choices": "Blue"}'])
    def test_a_question_is_a_question(self, arguments: str) -> None:
        with pytest.raises(InvalidArguments):
            ask_user().prepare({"arguments": arguments})

    def test_it_asks_again_by_itself_after_a_crash(self, monkeypatch: pytest.MonkeyPatch) -> None:
        state = self.asked(ask_user())
        agent = self.agent
        again = self.run(agent, self.crashed(self.run(agent, state), agent))
        assert [item.kind for item in again.interruptions] == ["external"], "and nobody must say what became of it"
        assert self.taken(again.to_state(), "Red") == "Red"

    def test_it_can_be_named_and_described(self) -> None:
        tool = ask_user("ask_guest", "Ask the guest.")
        assert (tool.name, tool.description, tool.read_only) == ("ask_guest", "Ask the guest.", True)
        assert self.taken(self.asked(tool), "Red") == "Red"

    def test_two_of_them_are_two_tools(self) -> None:
        calls = [function_call(name, {"question": "?"}, call_id=name) for name in ("ask_guest", "ask_boss")]
        agent = self.build(ask_user("ask_guest"), calls, others=(ask_user("ask_boss", answer_type=bool),))
        state = self.run(agent, "go").to_state()
        for item, answer in zip(state.get_interruptions(), ("Red", True), strict=True):
            state.answer(item, answer)
        assert self.run(agent, state).final_output == "done: ask_boss, ask_guest"

    def test_what_the_model_says_is_escaped_by_every_face(self) -> None:
        state = self.asked(ask_user(), question=HOSTILE, choices=[HOSTILE, "b"])
        preview = self.refused_to_take(state, HOSTILE[1:].replace("\0", "")).get_interruptions()[0].preview
        assert all(char == "\n" or char.isprintable() for char in terminal.render(preview, width=40))
        assert "<script" not in html.render(preview)

    def test_who_must_approve_the_question_sees_it(self) -> None:
        tool = ask_user()
        tool.needs_approval = True
        state = self.run(self.build(tool, [self.call("q1")]), "go").to_state()
        [item] = state.get_interruptions()
        assert (item.kind, item.preview.blocks[0].text) == ("approval", "Question 0?")
        state.approve(item)
        result = self.run(self.agent, state)
        assert self.taken(result.to_state(), "Red") == "Red"


def test_an_agent_can_have_it_beside_others() -> None:
    assert Agent("a", tools=[ask_user()]).tools[0].name == "ask_user"
