"""Types in, schemas out; the model's text in, values out; values in, the log's JSON out."""

from __future__ import annotations

import datetime
import enum
import os
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, SecretStr
from typing_extensions import TypedDict

from keyturn.agents.output import AgentOutputSchema, AgentOutputSchemaBase, dump, output_schema_for
from keyturn.core.errors import ModelBehaviorError, UserError
from keyturn.core.strict import parse
from tests.table import each

T = TypeVar("T")


class Weather(BaseModel):
    city: str
    degrees: float = 0


class Box(BaseModel, Generic[T]):
    inside: T


@dataclass
class Point:
    x: int


class Options(TypedDict):
    deep: bool


class Numbers(RootModel[list[int]]):
    pass


class Colour(enum.Enum):
    RED = "red"


# ----------------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("output_type", "name", "text", "value"),
    [
        (Weather, "Weather", '{"city":"x","degrees":"1"}', Weather(city="x", degrees=1)),
        (Box[int], "Box[int]", '{"inside":1}', Box[int](inside=1)),
        (Point, "Point", '{"x":1}', Point(1)),
        (Options, "Options", '{"deep":true}', {"deep": True}),
    ],
)
def test_objects_are_asked_for_as_they_are(output_type: Any, name: str, text: str, value: Any) -> None:
    schema = AgentOutputSchema(output_type)
    assert schema.name() == name
    assert schema.json_schema()["type"] == "object"
    assert "response" not in schema.json_schema()["properties"]
    assert schema.validate_json(text) == value


@each(
    ("output_type", "name", "text", "value"),
    [
        (int, "int", "1", 1),
        (bool, "bool", "false", False),
        (list[int], "list[int]", "[1]", [1]),
        (list[Weather], None, '[{"city":"x"}]', [Weather(city="x")]),
        (Weather | Point, None, '{"x":1}', Point(1)),
        (Literal["a", "b"], "Literal['a', 'b']", '"a"', "a"),
        (int | None, "int | None", "null", None),
        (Numbers, "Numbers", "[1]", Numbers([1])),
        (Colour, "Colour", '"red"', Colour.RED),
        (datetime.date, "date", '"2030-01-31"', datetime.date(2030, 1, 31)),
        (Annotated[int, Field(gt=0)], None, "1", 1),
    ],
)
def test_every_other_type_is_wrapped(output_type: Any, name: str | None, text: str, value: Any) -> None:
    schema = AgentOutputSchema(output_type)
    assert name is None or schema.name() == name
    assert schema.json_schema()["required"] == ["response"]
    assert schema.json_schema()["additionalProperties"] is False
    assert schema.validate_json(f'{{"response":{text}}}') == value


def test_strictness_reaches_every_object() -> None:
    strict = AgentOutputSchema(list[Weather])
    assert strict.is_strict_json_schema()
    assert strict.json_schema()["$defs"]["Weather"]["required"] == ["city", "degrees"]
    loose = AgentOutputSchema(list[Weather], strict_json_schema=False)
    assert not loose.is_strict_json_schema()
    assert loose.json_schema()["$defs"]["Weather"]["required"] == ["city"]


@pytest.mark.parametrize("output_type", [dict[str, int], dict, list[dict[str, Any]]])
def test_open_objects_need_the_loose_form(output_type: Any) -> None:
    with pytest.raises(UserError, match=r"^output type .*strict_json_schema=False"):
        AgentOutputSchema(output_type)
    AgentOutputSchema(output_type, strict_json_schema=False)


def test_a_bare_dict_is_an_object() -> None:
    assert AgentOutputSchema(dict, strict_json_schema=False).validate_json('{"a":1}') == {"a": 1}
    wrapped = AgentOutputSchema(dict[str, int], strict_json_schema=False)
    assert wrapped.validate_json('{"response":{"a":1}}') == {"a": 1}


def test_an_answer_is_taken_as_the_other_sdk_asks_for_it() -> None:
    """Programs that come from there have such answers in their tests."""
    assert AgentOutputSchema(Point).validate_json('{"response":{"x":1}}') == Point(1)
    assert AgentOutputSchema(dict[str, int], strict_json_schema=False).validate_json('{"a":1}') == {"a": 1}
    for wrong in (
        '{"response":{"x":"one"}}',
        '{"response":{"x":1},"more":1}',
        '{"response":{"x":1,"x":2}}',
        '{"x":1,"x":2}',
    ):
        with pytest.raises(ModelBehaviorError):
            AgentOutputSchema(Point).validate_json(wrong)
    with pytest.raises(ModelBehaviorError):
        AgentOutputSchema(dict[str, int], strict_json_schema=False).validate_json('{"a":1,"a":2}')


def test_a_type_without_a_schema_is_refused() -> None:
    class Arbitrary:
        pass

    with pytest.raises(UserError, match=r"^output type Arbitrary has no JSON schema: .*Arbitrary"):
        AgentOutputSchema(Arbitrary)


@pytest.mark.parametrize("output_type", [str, None])
def test_plain_text_has_no_schema(output_type: Any) -> None:
    schema = AgentOutputSchema(output_type)
    assert schema.is_plain_text()
    assert schema.name() == "str"
    assert schema.validate_json("{") == "{"
    with pytest.raises(UserError, match="plain text has no JSON schema"):
        schema.json_schema()


# --------------------------------------------------------------------------------------------------------- answers


@each(
    ("text", "said"),
    [
        ("", "not strict JSON: empty"),
        ("sunny", "not strict JSON: "),
        ('{"city":"x","city":"y"}', "not strict JSON: "),
        ('{"city":"x","degrees":NaN}', "not strict JSON: "),
        ('{"degrees":1}', "city: a value is required"),
        ('{"city":["hunter2"]}', "city: Input should be a valid string"),
        ("[]", "Input should be an object"),
    ],
)
def test_an_answer_that_does_not_fit_is_the_models_fault(text: str, said: str) -> None:
    with pytest.raises(ModelBehaviorError) as caught:
        AgentOutputSchema(Weather).validate_json(text)
    assert str(caught.value).startswith(f"the final answer is not a Weather: {said}")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


# ---------------------------------------------------------------------------------------------------- declarations


def test_what_an_agent_declares() -> None:
    assert output_schema_for(None) is None
    assert output_schema_for(str) is None
    own = AgentOutputSchema(int)
    assert output_schema_for(own) is own
    made = output_schema_for(Weather)
    assert isinstance(made, AgentOutputSchemaBase)
    assert output_schema_for(Weather) is made


def test_equal_types_that_are_written_differently_are_not_one() -> None:
    first, second = output_schema_for(int | str), output_schema_for(str | int)
    assert first is not None
    assert second is not None
    assert first.json_schema() != second.json_schema()


def test_a_type_that_cannot_be_hashed_is_built_each_time() -> None:
    schema = output_schema_for(Annotated[int, ["note"]])
    assert schema is not None
    assert schema.validate_json('{"response":1}') == 1


# --------------------------------------------------------------------------------------------------------- the log


@each(
    ("value", "written"),
    [
        (None, None),
        (True, True),
        (1, 1),
        ("x", "x"),
        ("é", "é"),
        (float("inf"), "Infinity"),
        (Weather(city="x", degrees=1), {"city": "x", "degrees": 1.0}),
        (Point(1), {"x": 1}),
        ([Colour.RED, Decimal("1.10"), (1, b"a")], ["red", "1.10", [1, "a"]]),
        ({1: datetime.date(2030, 1, 31)}, {"1": "2030-01-31"}),
        (SecretStr("hunter2"), "**********"),
        (ValueError("no"), "no"),
        ([ValueError("no")], ["no"]),
        (b"\xff", "b'\\xff'"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_the_log_keeps(value: Any, written: Any) -> None:
    assert dump(value) == written


def test_a_cycle_is_written_as_text() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert dump(loop) == "[[...]]"


def test_names_of_files_can_be_logged() -> None:
    assert dump([os.fsdecode(b"caf\xe9")]) == "['caf\\udce9']"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_json_is_kept(value: Any) -> None:
    assert dump(value) == value


def test_an_answer_survives_the_log() -> None:
    import json

    schema = AgentOutputSchema(Weather)
    value = schema.validate_json('{"city":"x"}')
    text = json.dumps(dump(value))
    parse(text)
    assert schema.validate_json(text) == value
