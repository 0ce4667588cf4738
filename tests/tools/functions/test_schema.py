"""The model's text in, what runs out: freeze and bind."""

from __future__ import annotations

import asyncio
import datetime
import enum
import functools
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NotRequired, TypeVar, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, Json, PlainSerializer, computed_field
from typing_extensions import TypedDict

from keyturn.core.errors import ModelBehaviorError, UserError
from keyturn.core.strict import parse
from keyturn.tools.functions.schema import Frozen, FunctionSchema, InvalidArguments, Secret, function_schema
from tests.table import each

T = TypeVar("T")


class Context(Generic[T]):
    pass


class Colour(enum.Enum):
    RED = "red"


class Place(BaseModel):
    city: str
    zip: str | None = None


@dataclass
class Size:
    width: int
    height: float = 1


class Options(TypedDict):
    depth: int
    wide: NotRequired[bool]


def loose(func: Callable[..., Any]) -> FunctionSchema:
    return function_schema(func, strict_json_schema=False)


def refusal(schema: FunctionSchema, text: str) -> str:
    with pytest.raises(InvalidArguments) as caught:
        schema.freeze(text)
    start = f"The arguments of {schema.name} are invalid: "
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


def pay(amount: int, currency: str = "EUR") -> None: ...


PAY = function_schema(pay)


# ---------------------------------------------------------------------------------------------------------- freeze


@each(
    ("text", "frozen", "exact"),
    [
        ('{"amount":5,"currency":"EUR"}', '{"amount":5,"currency":"EUR"}', True),
        (' {"currency": "\\u00e9",\n"amount": 5}', '{"amount":5,"currency":"é"}', True),
        ('{"amount":5}', '{"amount":5,"currency":"EUR"}', False),
    ],
)
def test_what_will_run_is_validated_defaulted_and_canonical(text: str, frozen: str, exact: bool) -> None:
    assert PAY.freeze(text) == Frozen(frozen, json.loads(frozen), exact)


class Level(enum.IntEnum):
    LOW = 1


@each(
    ("annotation", "fits", "lax"),
    [
        (int, ["3"], ['"3"', "3.0", "true"]),
        (float, ["3.5", "3"], ['"3.5"', "true"]),
        (bool, ["true"], ["1", '"true"', '"yes"']),
        (int | None, ["3", "null"], ['"3"']),
        (list[int], ["[3]"], ['["3"]']),
        (Place, ['{"city":"x"}'], []),
        (Size, ['{"width":3}'], ['{"width":"3"}']),
        (Options, ['{"depth":3}'], ['{"depth":3.0}']),
        (Level, ["1"], ['"1"', "true"]),
        (Literal[1, "a"], ["1", '"a"'], ["true"]),
        (list[Literal[True]], ["[true]"], ["[1]"]),
        # What JSON has no type for is written as a string, and read from one.
        (Colour, ['"red"'], []),
        (Decimal, ["3", '"3.50"'], []),
        (datetime.date, ['"2026-11-28"'], ['"2026-11-28T00:00:00"']),
        (datetime.datetime, ['"2026-11-28T12:00:00Z"'], ["1700000000", '"2026-11-28"']),
        (datetime.timedelta, ['"PT1H"', '"01:00:00"'], ["3600"]),
        (uuid.UUID, ['"12345678-1234-5678-1234-567812345678"'], []),
        (Path, ['"a.txt"'], []),
        (bytes, ['"abc"'], []),
        (tuple[int, str], ['[3,"a"]'], ['["3","a"]']),
        (set[int], ["[3]"], ["[3.0]"]),
        (Json[list[int]], ['"[3]"'], ['"[\\"3\\"]"']),
        # By a validator of one's own, one parameter is read as its author wants.
        (Annotated[int, BeforeValidator(int)], ["3", '"3"'], []),
    ],
)
def test_arguments_are_held_to_the_schema_that_the_model_was_given(annotation: Any, fits: Any, lax: Any) -> None:
    def f(x: Any) -> None: ...

    f.__annotations__["x"] = annotation
    strict, by_wish = function_schema(f), loose(f)
    for value in fits:
        text = f'{{"x":{value}}}'
        assert strict.bind(strict.freeze(text).text) == by_wish.bind(by_wish.freeze(text).text)
    for value in lax:
        text = f'{{"x":{value}}}'
        assert refusal(strict, text).startswith("x"), value
        assert not by_wish.freeze(text).exact, "a person is shown what it was read as"


@each(
    ("annotation", "default", "runs"),
    [
        (float, 1, 1.0),
        (bool, 0, False),
        (int, 2.0, 2),
        (Decimal, 0, Decimal(0)),
        (Path, Path("a.txt"), Path("a.txt")),
        (Path, "a.txt", Path("a.txt")),
        (Colour, "red", Colour.RED),
        (datetime.date, "2026-11-28", datetime.date(2026, 11, 28)),
        (datetime.timedelta, 3, datetime.timedelta(seconds=3)),
        (tuple[int, ...], [], ()),
        (set[int], {1}, {1}),
        (Size, Size(3), Size(3, 1.0)),
        (Annotated[int, Field(ge=0)], Field(1.0, le=3), 1),
    ],
)
def test_a_default_may_be_what_python_takes_for_its_type(annotation: Any, default: Any, runs: Any) -> None:
    def f(x: Any = default) -> None: ...

    f.__annotations__["x"] = annotation
    for schema in (function_schema(f), loose(f)):
        [value] = schema.bind(schema.freeze("").text)[0]
        assert (value, type(value)) == (runs, type(runs))


def test_no_text_counts_as_no_arguments() -> None:
    def f(x: int = 1) -> None: ...

    assert function_schema(f).freeze("") == Frozen('{"x":1}', {"x": 1}, False)
    assert function_schema(lambda: 0, name_override="f").freeze("") == Frozen("{}", {}, False)
    assert function_schema(lambda: 0, name_override="f").freeze("{}") == Frozen("{}", {}, True)


@each(
    ("text", "said"),
    [
        ("null", "they must be a JSON object, not null"),
        ("[1]", "they must be a JSON object, not a list"),
        ('"x"', "they must be a JSON object, not a str"),
        ("{", "they are not strict JSON: "),
        (" ", "they are not strict JSON: "),
        ('{"amount":1,"amount":2}', "they are not strict JSON: "),
        ('{"amount":NaN}', "they are not strict JSON: "),
        ('{"amount":1e999}', "they are not strict JSON: "),
        ('{"amount":1,"currency":"\\ud800"}', "they are not strict JSON: "),
        ("{}", "amount: a value is required"),
        ('{"amount":null}', "amount: Input should be a valid integer, not null"),
        ('{"amount":"5"}', "amount: Input should be a valid integer, not a string"),
        ('{"amount":5.0}', "amount: Input should be a valid integer, not a number with a fraction"),
        ('{"amount":true}', "amount: Input should be a valid integer, not a boolean"),
        ('{"amount":1,"tip":2}', "tip: there is no such field, only amount, currency"),
    ],
)
def test_what_does_not_fit_is_refused_in_words_for_the_model(text: str, said: str) -> None:
    assert refusal(PAY, text).startswith(said)
    assert issubclass(InvalidArguments, ModelBehaviorError)


def test_a_refusal_has_no_stack_and_no_link() -> None:
    with pytest.raises(InvalidArguments) as caught:
        PAY.freeze('{"amount":"hunter2","currency":5}')
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "hunter2" not in str(caught.value)
    assert "http" not in str(caught.value)


def test_what_is_unknown_is_dropped_only_without_strictness() -> None:
    def f(place: Place) -> None: ...

    text = '{"place":{"city":"x","zip":null,"moon":1}}'
    assert refusal(function_schema(f), text) == "place.moon: there is no such field"
    assert loose(f).freeze(text).params == {"place": {"city": "x", "zip": None}}


def test_numbers_that_json_cannot_hold_are_refused_as_text_too() -> None:
    def f(x: float) -> None: ...

    assert refusal(loose(f), '{"x":"inf"}') == "x: Input should be a finite number"

    class Own(BaseModel):
        x: float

    def g(own: Own) -> None: ...

    with pytest.raises(InvalidArguments):
        loose(g).freeze('{"own":{"x":"nan"}}')


def test_a_validator_that_crashes_is_a_refusal_with_its_cause() -> None:
    def check(value: int) -> int:
        raise KeyError("password")

    def f(x: Annotated[int, AfterValidator(check)]) -> None: ...

    with pytest.raises(InvalidArguments, match=r"the check itself failed \(KeyError\)$") as caught:
        function_schema(f).freeze('{"x":1}')
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_validator_that_says_no_is_heard() -> None:
    def check(value: int) -> int:
        raise ValueError("pick another day")

    def f(x: Annotated[int, AfterValidator(check)]) -> None: ...

    assert refusal(function_schema(f), '{"x":1}') == "x: Value error, pick another day"


# ------------------------------------------------------------------------------------------ what you see is what runs


def test_defaults_of_nested_models_take_their_types_form() -> None:
    class Bill(BaseModel):
        amount: Decimal = 0
        rate: float = 1

    def f(bill: Bill, bills: list[Bill] = []) -> None: ...  # noqa: B006  # users write this

    frozen = function_schema(f).freeze('{"bill":{}}')
    assert frozen.params == {"bill": {"amount": "0", "rate": 1.0}, "bills": []}
    assert function_schema(f).freeze(frozen.text) == Frozen(frozen.text, frozen.params, True)


def test_a_validator_that_never_settles_is_refused() -> None:
    def f(y: int, x: Annotated[int, AfterValidator(lambda value: value + 1)]) -> None: ...

    assert refusal(function_schema(f), '{"x":1,"y":1}').startswith("x: reads back as another value each time")


def test_a_validator_that_settles_elsewhere_is_refused() -> None:
    def f(x: Annotated[int, AfterValidator(lambda value: min(2 * value, 10))]) -> None: ...

    assert refusal(function_schema(f), '{"x":3}').startswith("x: reads back as another value")
    assert function_schema(f).freeze('{"x":10}').exact


def test_a_validator_that_settles_at_once_is_fine() -> None:
    def f(x: Annotated[str, AfterValidator(str.strip)], y: Annotated[str, BeforeValidator(str)] = "") -> None: ...

    assert function_schema(f).freeze('{"x":" a ","y":1}') == Frozen('{"x":"a","y":"1"}', {"x": "a", "y": "1"}, False)


def test_a_serializer_that_cannot_be_read_back_is_refused() -> None:
    def f(x: Annotated[int, PlainSerializer(lambda value: f"{value} EUR")]) -> None: ...

    assert refusal(function_schema(f), '{"x":1}').startswith("x: Input should be a valid integer")


def test_a_factory_is_asked_once() -> None:
    def f(key: Annotated[uuid.UUID, Field(default_factory=uuid.uuid4)], n: int) -> None: ...

    frozen = function_schema(f).freeze('{"n":1}')
    assert function_schema(f).bind(frozen.text) == ([uuid.UUID(str(frozen.params["key"])), 1], {})


def test_what_is_computed_is_not_an_argument() -> None:
    class Box(BaseModel):
        side: int

        @computed_field
        @property
        def area(self) -> int:
            return self.side**2

    def f(box: Box, raw: Json[list[int]] = "[]") -> None: ...

    frozen = function_schema(f).freeze('{"box":{"side":2},"raw":"[1]"}')
    assert frozen == Frozen('{"box":{"side":2},"raw":"[1]"}', {"box": {"side": 2}, "raw": "[1]"}, True)
    assert function_schema(f).bind(frozen.text)[0][1] == [1]


@pytest.mark.trial
def test_sets_freeze_alike_in_every_process() -> None:
    code = (
        "from keyturn.tools.functions.schema import function_schema\n"
        "def f(x: set[str]): ...\n"
        'print(function_schema(f).freeze(\'{"x":["c","b","a","b"]}\').text)'
    )
    source = str(Path(__file__).resolve().parents[3] / "src")
    for seed in "1", "2":
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert ran.stdout == '{"x":["a","b","c"]}\n'


# ------------------------------------------------------------------------------------------------------------ bind


def test_every_kind_of_parameter_finds_its_place() -> None:
    def f(a: int, /, b: int, c: int = 3, *rest: Size, d: Colour, e: int = 5, **options: Place) -> None: ...

    schema = loose(f)
    text = '{"a":1,"b":2,"d":"red","rest":[{"width":1}],"options":{"x":{"city":"y"}}}'
    frozen = schema.freeze(text)
    assert frozen.params["c"] == 3
    assert schema.bind(frozen.text) == (
        [1, 2, 3, Size(1, 1.0)],
        {"d": Colour.RED, "e": 5, "x": Place(city="y")},
    )
    assert schema.bind(schema.freeze('{"a":1,"b":2,"d":"red"}').text) == ([1, 2, 3], {"d": Colour.RED, "e": 5})


def test_options_of_a_typed_dict() -> None:
    def f(**options: Unpack[Options]) -> None: ...

    schema = function_schema(f)
    assert schema.bind(schema.freeze('{"options":{"depth":1}}').text) == ([], {"depth": 1})


def test_arguments_are_objects_of_the_annotated_types() -> None:
    def f(
        place: Place,
        size: Size,
        colour: Colour,
        when: datetime.datetime,
        wait: datetime.timedelta,
        much: Decimal,
        options: Options,
        mode: Literal["a", "b"],
        either: int | str,
        pair: tuple[int, str],
        data: bytes,
        maybe: Place | None = None,
        anything: Any = None,
    ) -> None: ...

    given = {
        "place": {"city": "x"},
        "size": {"width": "2"},
        "colour": "red",
        "when": "2030-01-31T12:00:00Z",
        "wait": 90,
        "much": "1.10",
        "options": {"depth": 1},
        "mode": "b",
        "either": "5",
        "pair": [1, "x"],
        "data": "é",
        "anything": {"b": [1.0, None], "a": 1},
    }
    schema = loose(f)
    assert schema.bind(schema.freeze(json.dumps(given)).text)[0] == [
        Place(city="x"),
        Size(2, 1.0),
        Colour.RED,
        datetime.datetime(2030, 1, 31, 12, tzinfo=datetime.UTC),
        datetime.timedelta(seconds=90),
        Decimal("1.10"),
        {"depth": 1},
        "b",
        "5",
        (1, "x"),
        "é".encode(),
        None,
        {"a": 1, "b": [1.0, None]},
    ]


def test_bound_values_are_new_each_time() -> None:
    def f(x: list[int] = []) -> None: ...  # noqa: B006  # users write this

    schema = function_schema(f)
    first, second = schema.bind('{"x":[]}')[0][0], schema.bind('{"x":[]}')[0][0]
    assert first == second
    assert first is not second


def test_bind_refuses_what_freeze_would() -> None:
    with pytest.raises(InvalidArguments, match="amount: a value is required"):
        PAY.bind("{}")


def test_options_cannot_reach_other_parameters() -> None:
    def f(ctx: Context[int], key: str, /, a: int, *, b: int = 1, **options: int) -> None: ...

    schema = function_schema(functools.partial(f, b=7, hidden=8), strict_json_schema=False, context_types=(Context,))
    assert schema.takes_context
    for name in ("a", "b", "hidden"):
        text = json.dumps({"key": "k", "a": 1, "options": {name: 9}})
        assert refusal(schema, text) == f"options: {name} cannot be given there"
    # A positional-only parameter leaves its name free.
    frozen = schema.freeze('{"key":"k","a":1,"options":{"key":9}}')
    assert schema.bind(frozen.text) == (["k", 1], {"key": 9})


def test_what_a_partial_fixed_stays_fixed() -> None:
    def charge(account: str, amount: int, key: str) -> tuple[str, int, str]:
        return account, amount, key

    fixed = functools.partial(charge, "ACC", key="secret")
    schema = function_schema(fixed)
    assert list(schema.params_json_schema["properties"]) == ["amount"]
    positional, keywords = schema.bind(schema.freeze('{"amount":1}').text)
    assert fixed(*positional, **keywords) == ("ACC", 1, "secret")
    assert refusal(schema, '{"amount":1,"key":"mine"}').startswith("key: there is no such field")


def test_methods_and_callable_objects_run_with_what_is_bound() -> None:
    class Counter:
        def __init__(self) -> None:
            self.total = 0

        def add(self, ctx: Context[int], by: int, *more: int) -> int:
            self.total += by + sum(more)
            return self.total

        async def __call__(self, by: int) -> int:
            return self.add(Context(), by)

    counter = Counter()
    method = function_schema(counter.add, context_types=(Context,))
    positional, keywords = method.bind(method.freeze('{"by":1,"more":[2,3]}').text)
    assert counter.add(Context(), *positional, **keywords) == 6
    instance = function_schema(counter)
    assert (instance.name, instance.is_async) == ("Counter", True)
    assert asyncio.run(counter(*instance.bind('{"by":4}')[0])) == 10


def test_the_context_is_not_an_argument() -> None:
    def f(ctx: Context[dict[str, int]], x: int) -> None: ...

    schema = function_schema(f, context_types=(Context,))
    assert list(schema.params_json_schema["properties"]) == ["x"]
    assert schema.bind('{"x":1}') == ([1], {})
    assert "ctx" in refusal(schema, '{"x":1,"ctx":{}}')
    with pytest.raises(UserError, match="tool 'f': parameter 'ctx' has a type"):
        function_schema(f)


# ------------------------------------------------------------------------------------------------------------ laws


def everything(
    number: int,
    ratio: float,
    text: str,
    flag: bool,
    anything: Any,
    items: list[float],
    unique: set[str],
    table: dict[str, int],
    place: Place,
    size: Size,
    either: int | float | str | bool | None,
    day: datetime.date | None = None,
    amount: Decimal = Decimal(1),
    secret: Annotated[str, Secret] = "",
) -> None: ...


EVERYTHING = loose(everything)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text('aé\u2028\U0001f511\\"', max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NUMBERS = st.integers(-(2**70), 2**70) | FLOATS
ARGUMENTS = st.fixed_dictionaries(
    {
        "number": st.integers() | st.integers().map(str) | st.booleans(),
        "ratio": NUMBERS,
        "text": st.text(max_size=5),
        "flag": st.booleans() | st.sampled_from(["yes", "off", 0, 1]),
        "anything": JSON,
        "items": st.lists(NUMBERS, max_size=3),
        "unique": st.lists(st.text(max_size=3), max_size=5),
        "table": st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
        "place": st.fixed_dictionaries({"city": st.text(max_size=3)}),
        "size": st.fixed_dictionaries({"width": st.integers()}, optional={"height": NUMBERS}),
        "either": NUMBERS | st.booleans() | st.none() | st.text(max_size=3),
    },
    optional={
        "day": st.dates().map(str) | st.none(),
        "amount": st.decimals(allow_nan=False, allow_infinity=False).map(str) | st.integers(-(10**20), 10**20),
        "secret": st.text(max_size=3),
    },
)


@given(ARGUMENTS, st.booleans())
def test_freezing_is_final(arguments: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(arguments, ensure_ascii=ascii_only)
    frozen = EVERYTHING.freeze(text)
    assert parse(frozen.text) == frozen.params
    assert EVERYTHING.freeze(frozen.text) == Frozen(frozen.text, frozen.params, True)
    assert EVERYTHING.freeze(text) == frozen


@given(ARGUMENTS)
def test_what_runs_is_what_was_frozen(arguments: dict[str, Any]) -> None:
    frozen = EVERYTHING.freeze(json.dumps(arguments))
    bound = dict(zip(frozen.params, EVERYTHING.bind(frozen.text)[0], strict=True))
    for name in ("number", "ratio", "text", "flag", "anything", "items", "table", "either", "secret"):
        assert (bound[name], type(bound[name])) == (frozen.params[name], type(frozen.params[name]))


@given(st.dictionaries(st.sampled_from(["x", "y"]), JSON))
def test_anything_passes_untouched(arguments: dict[str, Any]) -> None:
    def f(x: Any = None, y: Any = None) -> None: ...

    schema = function_schema(f)
    frozen = schema.freeze(json.dumps(arguments))
    assert frozen.params == {"x": None, "y": None} | arguments
    assert frozen.exact == (len(arguments) == 2)


@given(st.text(max_size=30) | JSON.map(json.dumps))
def test_any_text_is_frozen_or_refused(text: str) -> None:
    try:
        frozen = EVERYTHING.freeze(text)
    except InvalidArguments:
        return
    assert EVERYTHING.freeze(frozen.text).exact
