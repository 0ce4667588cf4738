"""Signatures in, fields and JSON schemas out; what cannot work is refused at the declaration."""

from __future__ import annotations

import datetime
import enum
import uuid
from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, Unpack

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    Base64Bytes,
    BaseModel,
    Field,
    ImportString,
    PrivateAttr,
    SecretBytes,
    SecretStr,
)
from pydantic import Secret as PydanticSecret
from typing_extensions import TypedDict

from keyturn.core.errors import UserError
from keyturn.tools.functions import parameters
from keyturn.tools.functions.schema import FunctionSchema, InvalidArguments, Secret, function_schema
from tests.table import each


class Place(BaseModel):
    city: str
    zip: str | None = None


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Options(TypedDict):
    depth: int


def properties(func: Callable[..., Any], **options: Any) -> dict[str, Any]:
    return function_schema(func, **options).params_json_schema["properties"]


# ------------------------------------------------------------------------------------------------- what it is told


def test_the_schema_of_a_plain_function() -> None:
    def move(to: Place, colour: Colour = Colour.RED, *, fast: bool = False) -> None: ...

    place = {
        "type": "object",
        "title": "Place",
        "properties": {
            "city": {"title": "City", "type": "string"},
            "zip": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Zip"},
        },
        "required": ["city", "zip"],
        "additionalProperties": False,
    }
    assert function_schema(move).params_json_schema == {
        "$defs": {"Colour": {"enum": ["red", "blue"], "title": "Colour", "type": "string"}, "Place": place},
        "type": "object",
        "title": "move_args",
        "properties": {
            "to": {"$ref": "#/$defs/Place"},
            "colour": {"enum": ["red", "blue"], "title": "Colour", "type": "string", "default": "red"},
            "fast": {"type": "boolean", "title": "Fast", "default": False},
        },
        "required": ["to", "colour", "fast"],
        "additionalProperties": False,
    }


def test_without_strictness_the_schema_is_as_pydantic_made_it() -> None:
    def f(x: int, place: Place, tags: dict[str, int] | None = None, **more: str) -> None: ...

    schema = function_schema(f, strict_json_schema=False).params_json_schema
    assert schema["required"] == ["x", "place"]
    assert "additionalProperties" not in schema
    assert schema["$defs"]["Place"]["required"] == ["city"]
    assert schema["properties"]["tags"]["default"] is None
    assert schema["properties"]["more"]["additionalProperties"] == {"type": "string"}


def test_no_parameters_make_an_empty_object() -> None:
    def f() -> None: ...

    assert function_schema(f).params_json_schema == {
        "type": "object",
        "title": "f_args",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_descriptions_from_the_docstring_the_field_and_the_annotation() -> None:
    def f(
        doc: int,
        text: Annotated[int, "from the text"],
        union: Annotated[int, "from the union"] | None = None,
        field: Annotated[int, Field(description="from the field")] = 1,
        default: int = Field(2, description="from the default", ge=1),
        *rest: int,
    ) -> None:
        """Go.

        Args:
            doc: from the docstring
            text: unused
            union: unused
            field: unused
            default: unused
            *rest: the rest
        """

    said = {name: each["description"] for name, each in properties(f).items()}
    assert said == {
        "doc": "from the docstring",
        "text": "from the text",
        "union": "from the union",
        "field": "from the field",
        "default": "from the default",
        "rest": "the rest",
    }
    assert properties(f)["default"]["minimum"] == 1
    assert properties(f, use_docstring_info=False).get("doc") == {"title": "Doc", "type": "integer"}


def test_name_and_description_can_be_given() -> None:
    def f() -> None:
        """Docs."""

    assert (function_schema(f).name, function_schema(f).description) == ("f", "Docs.")
    schema = function_schema(f, name_override="g", description_override="Other.")
    assert (schema.name, schema.description, schema.params_json_schema["title"]) == ("g", "Other.", "g_args")
    assert function_schema(f, use_docstring_info=False).description == ""


def test_a_described_model_is_inlined() -> None:
    def f(place: Annotated[Place, "where"]) -> None: ...

    assert properties(f)["place"]["description"] == "where"
    assert properties(f)["place"]["additionalProperties"] is False


def test_any_name_is_a_parameter_name() -> None:
    def f(model_config: int, schema: int, json: int, _hidden: int, self_: int, p0: int, copy: int = 0) -> None: ...

    schema = function_schema(f)
    assert list(properties(f)) == ["model_config", "schema", "json", "_hidden", "self_", "p0", "copy"]
    text = '{"model_config":1,"schema":2,"json":3,"_hidden":4,"self_":5,"p0":6,"copy":7}'
    assert schema.bind(schema.freeze(text).text) == ([1, 2, 3, 4, 5, 6, 7], {})


def test_an_alias_is_the_name_in_json() -> None:
    def f(from_: Annotated[str, Field(alias="from")], *, to_: str = Field("x", alias="to")) -> None: ...

    schema = function_schema(f)
    assert list(schema.params_json_schema["properties"]) == ["from", "to"]
    assert schema.bind('{"from":"a","to":"b"}') == (["a"], {"to_": "b"})


def test_two_parameters_cannot_have_one_name() -> None:
    def f(a: int, b: Annotated[int, Field(alias="a")]) -> None: ...

    with pytest.raises(UserError, match="tool 'f': two parameters have one name in JSON: a, a"):
        function_schema(f)


def test_a_default_of_none_makes_the_type_optional() -> None:
    def f(x: int = None, y: Annotated[int, Field(gt=0, description="why")] = None) -> None: ...  # noqa: RUF013  # users write this

    schema = function_schema(f)
    assert schema.freeze("{}").params == {"x": None, "y": None}
    assert schema.params_json_schema["properties"]["y"]["description"] == "why"
    assert schema.freeze('{"x": 1, "y": 2}').params == {"x": 1, "y": 2}


def test_a_field_as_default() -> None:
    def f(
        none: int = Field(None),  # users write this
        made: list[int] = Field(default_factory=list),  # noqa: B008  # users write this
        needed: int = Field(gt=0),  # users write this
        inside: Annotated[int, Field(default=3)] = ...,
    ) -> None: ...

    schema = function_schema(f, strict_json_schema=False)
    assert schema.params_json_schema["required"] == ["needed", "inside"]
    assert schema.freeze('{"needed":1,"inside":2}').params == {"none": None, "made": [], "needed": 1, "inside": 2}


def test_tagged_unions() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]

    class Dog(BaseModel):
        kind: Literal["dog"]
        good: bool = True

    def f(pet: Annotated[Cat | Dog, Field(discriminator="kind", description="which")]) -> None: ...

    schema = function_schema(f)
    assert schema.params_json_schema["properties"]["pet"] == {
        "anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
        "title": "Pet",
        "description": "which",
    }
    assert schema.bind(schema.freeze('{"pet":{"kind":"dog"}}').text)[0] == [Dog(kind="dog")]


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(UserError, match="lambda has no name"):
        function_schema(lambda: 1)
    assert function_schema(lambda: 1, name_override="one").name == "one"


# --------------------------------------------------------------------------------------------------- strictness


def open_dict(tags: dict[str, int]) -> None: ...
def open_nested(places: list[dict[str, int]]) -> None: ...
def open_options(**tags: int) -> None: ...
def open_bare(tags: dict) -> None: ...


class Loose(BaseModel, extra="allow"):
    x: int


def open_model(loose: Loose) -> None: ...


@pytest.mark.parametrize(
    ("func", "name"),
    [
        (open_dict, "tags"),
        (open_nested, "places"),
        (open_options, "tags"),
        (open_bare, "tags"),
        (open_model, "loose"),
    ],
)
def test_an_open_object_is_refused_in_strict_mode(func: Callable[..., Any], name: str) -> None:
    with pytest.raises(UserError, match=rf"tool '{func.__name__}': parameter '{name}'.*strict_mode=False"):
        function_schema(func)
    assert function_schema(func, strict_json_schema=False).strict_json_schema is False


def test_options_of_a_typed_dict_are_closed() -> None:
    def f(**options: Unpack[Options]) -> None: ...

    assert properties(f)["options"] == {"$ref": "#/$defs/Options"}


# ---------------------------------------------------------------------------------------------------- refusals


class Login(BaseModel):
    user: str
    password: SecretStr


class Excluded(BaseModel):
    seen: int
    hidden: int = Field(0, exclude=True)


class TwoFaced(BaseModel):
    x: int = Field(validation_alias="in", serialization_alias="out")


class Choices(BaseModel):
    x: int = Field(validation_alias=AliasChoices("a", "b"))


class Pathed(BaseModel):
    x: int = Field(validation_alias=AliasPath("a", 0))


class Renamed(BaseModel):
    x: int = Field(serialization_alias="y")


class Node(BaseModel):
    children: list[Node] = []
    login: Login | None = None


@dataclass
class WithInitVar:
    x: InitVar[int]


@dataclass
class Computed:
    x: int
    y: int = field(init=False, default=2)


class HiddenKey(TypedDict):
    x: Annotated[int, Field(exclude=True)]


def secret_text(x: SecretStr) -> None: ...
def secret_bytes(x: SecretBytes | None = None) -> None: ...
def secret_any(x: list[PydanticSecret[int]]) -> None: ...
def secret_nested(x: dict[str, list[Login]]) -> None: ...
def secret_recursive(x: Node) -> None: ...
def excluded(x: Excluded) -> None: ...
def excluded_itself(x: Annotated[int, Field(exclude=True)]) -> None: ...
def excluded_key(x: HiddenKey) -> None: ...
def two_faced(x: TwoFaced) -> None: ...
def choices(x: Choices) -> None: ...
def pathed(x: Pathed) -> None: ...
def renamed(x: Renamed) -> None: ...
def two_faced_itself(x: Annotated[int, Field(validation_alias="z")]) -> None: ...
def init_var(x: WithInitVar) -> None: ...
def computed(x: Computed) -> None: ...
def iterable(x: Iterable[int]) -> None: ...
def subclass(x: type[int]) -> None: ...
def import_string(x: ImportString) -> None: ...


@each(
    ("func", "said"),
    [
        (secret_text, r"'x' prints as asterisks.*Annotated\[str, Secret\]"),
        (secret_bytes, "'x' prints as asterisks"),
        (secret_any, "'x' prints as asterisks"),
        (secret_nested, r"'x\.password' prints as asterisks"),
        (secret_recursive, r"'x\.login\.password' prints as asterisks"),
        (excluded, r"'x\.hidden' is excluded.*remove exclude"),
        (excluded_itself, "'x' is excluded"),
        (excluded_key, r"'x\.x' is excluded"),
        (two_faced, r"'x\.x' is printed as 'out' but read under another name.*alias="),
        (choices, r"'x\.x' is printed as 'x' but"),
        (pathed, r"'x\.x' is printed as 'x' but"),
        (renamed, r"'x\.x' is printed as 'y' but"),
        (two_faced_itself, "'x' has a one-sided alias.*alias="),
        (init_var, r"'x\.x' is an InitVar"),
        (computed, r"'x\.y' is an InitVar or init=False"),
        (iterable, r"'x' is an Iterable.*list\["),
        (subclass, "'x' is a class"),
        (import_string, "'x' runs an import"),
    ],
)
@each("strict", [True, False])
def test_what_cannot_print_back_is_refused(func: Callable[..., Any], said: str, strict: bool) -> None:
    with pytest.raises(UserError, match=f"^tool '{func.__name__}': parameter {said}"):
        function_schema(func, strict_json_schema=strict)


class Arbitrary:
    pass


class Dangling(BaseModel):
    x: Nowhere  # noqa: F821  # missing on purpose


def arbitrary(fine: int, x: Arbitrary) -> None: ...
def function(x: Callable[[], int]) -> None: ...
def dangling(x: Dangling) -> None: ...


@pytest.mark.each
@pytest.mark.parametrize(
    ("func", "said"),
    [(arbitrary, "Arbitrary"), (function, "CallableSchema"), (dangling, "not fully defined")],
)
def test_a_type_without_a_schema_is_refused_by_name(func: Callable[..., Any], said: str) -> None:
    with pytest.raises(UserError, match=rf"^tool '{func.__name__}': parameter 'x' has a type.*{said}[^\n]*$"):
        function_schema(func)


def sentinel(x: Any = object()) -> None: ...  # noqa: B008  # users write this
def infinite(x: float = float("inf")) -> None: ...
def binary(x: bytes = b"\xff") -> None: ...
def mistyped(y: int, x: int = "many") -> None: ...
def crashing(x: Annotated[int, AfterValidator(lambda value: [][value])] = 0) -> None: ...
def out_of_range(x: Annotated[int, Field(gt=0)] = 0) -> None: ...


@each(
    ("func", "said"),
    [
        (sentinel, "a default .*'x'.* cannot be written as JSON"),
        (infinite, "a default .*'x'.* cannot be written as JSON|default of parameter 'x' is not of its type"),
        (binary, "a default .*'x'.* cannot be written as JSON"),
        (mistyped, "the default of parameter 'x' is not of its type: Input should be a valid integer"),
        (out_of_range, "the default of parameter 'x' is not of its type: Input should be greater than 0"),
        (crashing, r"a default is refused by the validation of its own type: .*\(IndexError\)"),
    ],
)
def test_a_default_that_cannot_run_is_refused(func: Callable[..., Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        function_schema(func)


READY: list[int] = []


def test_a_factory_that_works_only_at_a_call_is_left_to_the_call() -> None:
    def f(x: Annotated[int, Field(default_factory=lambda: READY[0])]) -> None: ...

    schema = function_schema(f)
    READY.append(7)
    assert schema.freeze("{}").params == {"x": 7}


def test_what_only_looks_dangerous_is_allowed() -> None:
    class Fine(BaseModel):
        default: int = 1
        metadata: dict[str, Literal["type"]] = {"type": "type"}
        config: Annotated[int, Field(alias="serialization")] = 3
        two: Annotated[int, Field(validation_alias=AliasChoices("two", "2"))] = 4
        _private: SecretStr = PrivateAttr(SecretStr("x"))

    def f(
        x: Fine,
        when: datetime.datetime,
        who: uuid.UUID,
        much: Decimal,
        text: bytes,
        code: Base64Bytes,
        maybe: int | None,
    ) -> None: ...

    assert function_schema(f, strict_json_schema=False).secrets == ()


# ------------------------------------------------------------------------------------------------------ secrets


class Account(BaseModel):
    user: str
    token: Annotated[str, Secret]


def secrets_of(func: Callable[..., Any]) -> tuple[str, ...]:
    return function_schema(func).secrets


def test_marked_arguments_are_listed_and_bound() -> None:
    def f(
        plain: str,
        marked: Annotated[str, Secret],
        instance: Annotated[str, Secret(), Field(min_length=1)],
        maybe: Annotated[str, Secret] | None,
        many: list[Annotated[str, Secret]],
        account: Account,
        accounts: Annotated[list[Account], "both"],
    ) -> None: ...

    assert secrets_of(f) == ("marked", "instance", "maybe", "many", "account", "accounts")


def test_the_mark_leaves_schema_and_value_alone() -> None:
    def marked(x: Annotated[str, Secret]) -> None: ...
    def unmarked(x: str) -> None: ...

    assert properties(marked) == properties(unmarked)
    schema: FunctionSchema = function_schema(marked)
    assert schema.freeze('{"x": "hunter2"}').params == {"x": "hunter2"}
    assert schema.bind('{"x":"hunter2"}') == (["hunter2"], {})


def test_a_marked_model_is_a_secret_only_where_it_is_marked() -> None:
    def f(a: Place, b: Annotated[Place, Secret]) -> None: ...

    assert secrets_of(f) == ("b",)


# -------------------------------------------------------------------------------------------- tools that are made anew


def _with(annotation: Any, *default: Any) -> Callable[..., Any]:
    def post(word: Any) -> None: ...

    post.__annotations__["word"], post.__defaults__ = annotation, default or None
    return post


ALIKE_BUT_NOT_THE_SAME = [
    (int, 1), (bool, True), (float, 1.0), (float, 0.0), (float, -0.0), (int,), (str, "1"), (str,), (Any,), (object,),
    (int | str, 1), (str | int, 1), (Literal[1],), (Literal[True],), (Literal["1"],), (list[int],), (list[bool],),
    (list,), (tuple[int, ...],), (tuple[int],), (tuple[()],), (dict[str, int],), (set[int],), (frozenset[int],),
    (Annotated[int, "how many"],), (Annotated[int, "which"],), (int | None,), (int | None, None),
]  # fmt: skip


def test_a_tool_made_anew_has_a_schema_of_its_own_and_the_model_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_made() -> list[FunctionSchema]:
        return [function_schema(_with(*given), strict_json_schema=False) for given in ALIKE_BUT_NOT_THE_SAME]

    with monkeypatch.context() as patched:
        patched.setattr(parameters, "form_of", lambda *_given: None)  # each has a model of its own
        alone = all_made()
    first = all_made()
    monkeypatch.setattr(parameters, "_build", None)  # nothing is built any more
    again = all_made()
    for given, *made in zip(ALIKE_BUT_NOT_THE_SAME, alone, first, again, strict=True):
        assert len({repr(schema.params_json_schema) for schema in made}) == 1, given
        for text in ("{}", '{"word":1}', '{"word":true}', '{"word":"1"}', '{"word":[1]}', '{"word":null}'):
            assert len({_outcome(schema, text) for schema in made}) == 1, (given, text)
    for schema in again:
        schema.params_json_schema["properties"]["word"]["description"] = "changed by its owner"
    assert "changed" not in str([schema.params_json_schema for schema in (*first, *all_made())])


def _outcome(schema: FunctionSchema, text: str) -> str:
    try:
        return repr(schema.bind(schema.freeze(text).text))
    except InvalidArguments as error:
        return str(error)


def test_descriptions_names_and_strictness_are_part_of_what_is_alike() -> None:
    def post(word: str) -> None:
        """Post it.

        Args:
            word: what to say
        """

    told = function_schema(post).params_json_schema
    untold = function_schema(post, use_docstring_info=False).params_json_schema
    assert [each["properties"]["word"].get("description") for each in (told, untold)] == ["what to say", None]
    assert function_schema(post, name_override="send").params_json_schema["title"] == "send_args"
    assert "additionalProperties" not in function_schema(post, strict_json_schema=False).params_json_schema
