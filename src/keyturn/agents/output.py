"""The type of a final answer: the schema for the model, and the parser of its text.

Objects (models, dataclasses, typed dicts) are asked for as they are, every other type inside
`{"response": ...}`, because providers want an object at the top. An answer in the form of the OpenAI Agents SDK, which
draws that line elsewhere, is taken as well. Nothing here runs an agent, and
pydantic is loaded for the first type that is not plain text.
"""

from __future__ import annotations

import abc
import dataclasses
import json
from contextlib import suppress
from functools import lru_cache
from typing import Any, get_origin

from ..core.errors import BadJson, ModelBehaviorError, UserError
from ..core.settable import Sealed
from ..core.strict import JsonValue, TextLimits, parse
from ..support.user_code import contained, run_callback
from ..tools.functions.refusal import cause, complaints
from ..tools.strict_schema import ensure_strict_json_schema

# An answer is as long as a model can write, unlike a tool's arguments.
_ANSWER = TextLimits(bytes=64 << 20)


class AgentOutputSchemaBase(abc.ABC):
    """Describes what an agent's final answer must be; subclass it to bring your own schema or parser.

    >>> class Shouted(AgentOutputSchemaBase):
    ...     def is_plain_text(self) -> bool: return False
    ...     def name(self) -> str: return "Shouted"
    ...     def json_schema(self) -> dict[str, Any]: return {"type": "object"}
    ...     def is_strict_json_schema(self) -> bool: return False
    ...     def validate_json(self, json_str: str) -> Any: return json_str.upper()
    >>> output_schema_for(Shouted()).validate_json("hi")
    'HI'
    """

    @abc.abstractmethod
    def is_plain_text(self) -> bool:
        """Return whether the answer is text as the model wrote it, not JSON."""

    @abc.abstractmethod
    def name(self) -> str:
        """Return the name of the type, for providers and messages."""

    @abc.abstractmethod
    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema that the model is given; it is not called for plain text."""

    @abc.abstractmethod
    def is_strict_json_schema(self) -> bool:
        """Return whether the schema keeps to the provider's strict form."""

    @abc.abstractmethod
    def validate_json(self, json_str: str) -> Any:
        """Parse the answer, or raise `ModelBehaviorError`; it is not called for plain text."""


class AgentOutputSchema(AgentOutputSchemaBase, Sealed):
    """Describes a Python type as the output schema.

    >>> schema = AgentOutputSchema(list[int])
    >>> schema.name(), schema.validate_json('{"response": [1, 2]}')
    ('list[int]', [1, 2])
    """

    def __init__(self, output_type: Any, strict_json_schema: bool = True) -> None:
        self.output_type = output_type
        self._strict = strict_json_schema
        self._name = _type_name(output_type)
        self._adapter: Any = None
        self._schema: dict[str, Any] = {}
        self._wrapped = False
        if output_type not in (None, str):
            self._build()

    def _build(self) -> None:
        from pydantic import TypeAdapter, create_model

        self._wrapped = not _is_object(self.output_type)
        try:
            asked: Any = (
                create_model("Response", response=(self.output_type, ...)) if self._wrapped else self.output_type
            )
            with contained:
                self._adapter = TypeAdapter[Any](asked)
                schema = self._adapter.json_schema()
            self._schema = ensure_strict_json_schema(schema) if self._strict else schema
        except UserError as error:
            raise UserError(f"output type {self._name}: {error}") from None
        except Exception as error:
            reason = str(getattr(error, "message", error)).split("\n", 1)[0]
            raise UserError(f"output type {self._name} has no JSON schema: {reason}") from error

    def is_plain_text(self) -> bool:
        """Return whether the type is `str`."""
        return self._adapter is None

    def name(self) -> str:
        """Return the type as it is written."""
        return self._name

    def json_schema(self) -> dict[str, Any]:
        """Return the schema that the model is given; raise `UserError` for plain text, which has none."""
        if self._adapter is None:
            raise UserError("plain text has no JSON schema: ask is_plain_text() first")
        return self._schema

    def is_strict_json_schema(self) -> bool:
        """Return whether the schema is in the strict form."""
        return self._strict

    def validate_json(self, json_str: str) -> Any:
        """Parse the answer as the type, or raise `ModelBehaviorError` that says what is wrong."""
        if self._adapter is None:
            return json_str
        try:
            parse(json_str, _ANSWER)
            value = run_callback(self._adapter.validate_json, json_str)
        except Exception as error:
            with suppress(Exception), contained:
                return self._as_elsewhere(json_str)
            reason = str(error) if isinstance(error, BadJson) else complaints(error)
            raise ModelBehaviorError(f"the final answer is not a {self._name}: {reason}") from cause(error)
        return value.response if self._wrapped else value

    def _as_elsewhere(self, json_str: str) -> Any:
        """Parse the answer as the OpenAI Agents SDK asks for it: a dict bare, and any class but a model wrapped."""
        from pydantic import BaseModel, TypeAdapter

        kind: Any = get_origin(self.output_type) or self.output_type
        answer: Any = parse(json_str, _ANSWER)
        if kind is dict:
            return TypeAdapter[Any](self.output_type).validate_json(json_str)
        if self._wrapped or issubclass(kind, BaseModel) or list(answer) != ["response"]:
            raise ValueError("it is none of those")
        return self._adapter.validate_json(json.dumps(answer["response"]))


def output_schema_for(output_type: object) -> AgentOutputSchemaBase | None:
    """Return the schema for what an agent declares as its output type; None where that is plain text.

    >>> output_schema_for(str) is None, output_schema_for(int) is output_schema_for(int)
    (True, True)
    """
    if output_type is None or output_type is str:
        return None
    if isinstance(output_type, AgentOutputSchemaBase):
        return output_type
    try:
        # Equal is not always the same: `int | str` equals `str | int`, and their schemas differ.
        return _cached(output_type, repr(output_type))
    except TypeError:  # an Annotated with something unhashable in it
        return AgentOutputSchema(output_type)


@lru_cache(maxsize=256)
def _cached(output_type: object, _written: str) -> AgentOutputSchema:
    return AgentOutputSchema(output_type)


def dump(value: Any) -> JsonValue:
    """Convert an answer to JSON for the log; what JSON cannot hold becomes text, never an error.

    >>> import datetime
    >>> dump([datetime.date(2030, 1, 31), {1}])
    ['2030-01-31', [1]]
    """
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is str:
        return _text(value)
    from pydantic_core import to_json

    try:
        return parse(run_callback(to_json, value, by_alias=True, inf_nan_mode="strings", fallback=str), _ANSWER)
    except Exception:  # cycles, bytes that are no text, a serializer that raises
        return _text(run_callback(str, value))


def _text(text: str) -> str:
    """Make a text fit for UTF-8: lone surrogates, as in names of files, are written as escapes."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _is_object(output_type: object) -> bool:
    """Return whether a type's JSON is an object whose keys the type names."""
    from pydantic import BaseModel, RootModel
    from typing_extensions import is_typeddict

    kind: Any = get_origin(output_type) or output_type
    # A bare `dict` is an object as well, though only without the strict form, which must know every key.
    if output_type is dict or dataclasses.is_dataclass(kind) or is_typeddict(kind):
        return True
    return isinstance(kind, type) and issubclass(kind, BaseModel) and not issubclass(kind, RootModel)


def _type_name(output_type: Any) -> str:
    if output_type is None:
        return "str"
    plain = isinstance(output_type, type) and get_origin(output_type) is None
    return output_type.__name__ if plain else str(output_type).replace("typing.", "")
