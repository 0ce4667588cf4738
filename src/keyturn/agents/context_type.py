"""Know the type of a user's context, so that it comes back after a pause as what it was: a dataclass or a model.

The type is the program's own (`Agent[Ctx]`, `context_type=`), never one that a saved text names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast, get_args

import msgspec

from ..core.errors import UserError


def declared_type(agent: object) -> type[Any] | None:
    """Return the type of context that an agent was made with, if it is one that can come back: `Agent[Ctx](...)`.

    >>> from keyturn import Agent
    >>> @dataclasses.dataclass
    ... class User:
    ...     name: str
    >>> declared_type(Agent[User](name="desk")) is User, declared_type(Agent(name="desk"))
    (True, None)
    """
    said = get_args(getattr(agent, "__orig_class__", None))
    return said[0] if said and _comes_back(said[0]) else None


def checked_type(given: Any) -> type[Any] | None:
    """Return a `context_type=`, or refuse what is neither a dataclass nor a pydantic model."""
    if given is not None and not _comes_back(given):
        raise UserError(
            f"context_type must be a dataclass or a pydantic model, not {given!r}; for anything else pass "
            "context_serializer= and context_deserializer="
        )
    return given


def made_as(kind: type[Any], data: object) -> Any:
    """Make a context of its type from its data, or raise `UserError`, which quotes none of it."""
    from pydantic import ValidationError

    try:
        return _reader(kind)(msgspec.json.encode(data))
    except ValidationError as error:
        wrong = sorted({".".join(map(str, each["loc"])) or "it" for each in error.errors(include_input=False)})
        raise UserError(
            f"the saved context is no {kind.__name__} as that is now: look at {', '.join(wrong)}; pass "
            "context_deserializer=, or another context at resume"
        ) from None


def same(one: object, other: object) -> bool:
    """Return whether two contexts hold the same, also where their class does not compare."""
    if type(one) is not type(other):
        return False
    if dataclasses.is_dataclass(one):
        return all(getattr(one, each.name) == getattr(other, each.name) for each in dataclasses.fields(one))
    return bool(one == other)


def _comes_back(kind: object) -> bool:
    named = isinstance(kind, type)
    return named and (dataclasses.is_dataclass(kind) or hasattr(cast("Any", kind), "model_validate_json"))


@lru_cache(maxsize=64)
def _reader(kind: type[Any]) -> Callable[[bytes], Any]:
    from pydantic import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, TypeAdapter

    try:
        return cast("TypeAdapter[Any]", TypeAdapter(kind)).validate_json
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, NameError) as error:
        raise UserError(
            f"a context of type {kind.__name__} cannot be made of its data, since its fields have types that have "
            f"no data ({type(error).__name__}); pass context_serializer= and context_deserializer="
        ) from None
