"""Build a pydantic model of a signature: how arguments are parsed from JSON, printed, and described to the model.

The only file of this room that builds with pydantic, which it loads when the first tool is declared.
What cannot work is refused here, at the declaration, never at a call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from inspect import Parameter
from typing import Annotated, Any, Optional, TypeVar, Unpack, cast, get_args, get_origin

import msgspec

from ...core.errors import UserError
from ...core.items import own_copy
from ...core.strict import JsonValue
from ..strict_schema import ensure_strict_json_schema
from .defaults import usable_defaults
from .plain import form_of
from .roundtrip import Survey, in_order, survey
from .signature import Signature, accepts_none, alternatives

_T = TypeVar("_T")


class Field(msgspec.Struct, frozen=True):
    """Describes one parameter as a field of the model: `key` is ours, `name` is what JSON calls it.

    Fields have keys of ours because a parameter may have any name, and a pydantic model has names of its own.
    """

    key: str
    name: str
    parameter: Parameter


class Parameters(msgspec.Struct, frozen=True):
    """Reads and prints a callable's arguments.

    `read` takes a JSON text, `show` what `read` returned. `runs_code` says that reading runs validators.
    """

    fields: tuple[Field, ...]
    json_schema: dict[str, Any]
    secrets: tuple[str, ...]
    read: Callable[[str], Any]
    show: Callable[[Any], dict[str, JsonValue]]
    runs_code: bool


def build_parameters(tool: str, signature: Signature, said: Mapping[str, str], strict: bool) -> Parameters:
    """Build the model of a signature, once for all that are alike; `said` are the descriptions from the docstring."""
    form = form_of(tool, signature, said, strict)
    asked = _Asked(form, tool, signature, said, strict)
    if form is None:
        return _build(asked)
    built = _remembered(asked)
    return msgspec.structs.replace(built, json_schema=own_copy(built.json_schema))


@dataclasses.dataclass(frozen=True)
class _Asked:
    """Holds what a model is built of; it is equal to another of the same form."""

    form: Hashable
    tool: str = dataclasses.field(compare=False)
    signature: Signature = dataclasses.field(compare=False)
    said: Mapping[str, str] = dataclasses.field(compare=False)
    strict: bool = dataclasses.field(compare=False)


def _build(asked: _Asked) -> Parameters:
    strict = asked.strict
    model, fields = _model(asked.tool, asked.signature, asked.said, strict)
    facts = _survey(model, fields)
    names = {field.key: field.name for field in fields}
    read, show = usable_defaults(model, names, lambda: (_reader(model, strict), _printer(model, facts)))
    schema = _built(fields, model.model_json_schema)
    told = ensure_strict_json_schema(schema) if strict else schema
    return Parameters(fields, told, facts.secrets, read, show, facts.runs_code)


_remembered = lru_cache(maxsize=512)(_build)


def _model(tool: str, signature: Signature, said: Mapping[str, str], strict: bool) -> tuple[Any, tuple[Field, ...]]:
    from pydantic import ConfigDict, create_model

    # A default is read back as JSON, as all arguments are: pydantic would take it for JSON of another form.
    config = ConfigDict(extra="forbid" if strict else "ignore", allow_inf_nan=False)
    fields: list[Field] = []
    definitions: dict[str, Any] = {}
    for place, parameter in enumerate(signature.parameters):
        key = f"p{place}"
        name, definitions[key] = _definition(parameter, said.get(parameter.name))
        fields.append(Field(key, name, parameter))
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise UserError(f"two parameters have one name in JSON: {', '.join(names)}")
    model: Any = _built(fields, lambda: create_model(f"{tool}_args", __config__=config, **definitions))
    _built(fields, model.model_rebuild)  # speaks up where a type of the user's names one that is not there
    return model, tuple(fields)


def _definition(parameter: Parameter, said: str | None) -> tuple[str, Any]:
    """Return the name in JSON and the pydantic field of a parameter."""
    from pydantic import Field as PydanticField
    from pydantic.fields import FieldInfo

    annotation, default = _typed(parameter)
    has_default = default is not Parameter.empty
    info = (
        FieldInfo.from_annotated_attribute(annotation, default)
        if has_default
        else FieldInfo.from_annotation(annotation)
    )
    name = info.alias or parameter.name
    if info.validation_alias not in (None, name) or info.serialization_alias not in (None, name):
        raise UserError(f"parameter {parameter.name!r} has a one-sided alias: give it one name with alias=")
    if info.default is None and not accepts_none(annotation):
        annotation = Optional[annotation]  # noqa: UP045 - the annotation is a value here, and may be a string
    description = info.description or _plain_description(annotation) or said
    extra: dict[str, Any] = {} if description is None else {"description": description}
    annotated: Any = Annotated[annotation, PydanticField(alias=name, **extra)]
    return name, (annotated, default) if has_default else annotated


def _typed(parameter: Parameter) -> tuple[Any, Any]:
    """Return the type and default of the field; `*args` become a list and `**kwargs` an object."""
    annotation, default = parameter.annotation, parameter.default
    if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
        return annotation, default
    if get_origin(annotation) is Unpack:
        return get_args(annotation)[0], default
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return list[annotation], []
    return dict[str, annotation], {}


def _plain_description(annotation: object) -> str | None:
    """Return the text in `Annotated[T, "text"]`, also where that is a member of a union."""
    if get_origin(annotation) is Annotated:
        for note in get_args(annotation)[1:]:
            if isinstance(note, str):
                return note
    return next((found for part in alternatives(annotation) if (found := _plain_description(part))), None)


def _built(fields: Sequence[Field], build: Callable[[], _T]) -> _T:
    try:
        return build()
    except Exception as error:
        raise UserError(_blame(fields, error)) from error


def _blame(fields: Sequence[Field], error: Exception) -> str:
    """Find the parameter that has no schema, by trying each alone."""
    from pydantic import TypeAdapter

    for field in fields:
        try:
            TypeAdapter[Any](_typed(field.parameter)[0]).json_schema()
        except Exception as own:
            return f"parameter {field.name!r} has a type that JSON arguments cannot have ({_first_line(own)})"
    return f"its parameters have no JSON schema ({_first_line(error)})"


def _first_line(error: Exception) -> str:
    return str(getattr(error, "message", error)).split("\n", 1)[0].split(". Set `arbitrary_types_allowed")[0]


def _survey(model: Any, fields: tuple[Field, ...]) -> Survey:
    core = model.__pydantic_core_schema__
    definitions: list[Any] = []
    if core["type"] == "definitions":
        core, definitions = core["schema"], core["definitions"]
    own = cast("dict[str, Any]", core["schema"]["fields"])
    return survey({field.name: own[field.key] for field in fields}, definitions)


def _reader(model: Any, strict: bool) -> Callable[[str], Any]:
    """Return what reads a text: by a strict schema, each value is of the JSON type that the schema names, at any depth.

    Dates, enums, decimals and the like are strings there, and are read from them; a number as a string is none.
    """
    validate = model.__pydantic_validator__.validate_json
    return partial(validate, extra="forbid", strict=True) if strict else validate


def _printer(model: Any, facts: Survey) -> Callable[[Any], dict[str, JsonValue]]:
    # Round trip: what is computed is left out, and a Json[...] prints as the text that it was read from.
    # Warnings are for people; what does not read back is refused by comparing.
    show = partial(model.__pydantic_serializer__.to_python, mode="json", by_alias=True, round_trip=True, warnings=False)
    return (lambda value: in_order(value, show(value))) if facts.has_sets else show
