"""Check that arguments which a person changed run as they were typed: no value becomes one of another JSON type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from .base import InvalidArguments, Prepared, Tool


def as_typed(tool: Tool, wanted: Any) -> Prepared:
    """Return what will run after a person changed the arguments, each of the JSON type in which they wrote it.

    A model's "5" may be read as a number. A person means what they type, and is told where a tool takes another type.
    """
    made = tool.edit(wanted)
    for place, given, takes in _retyped(wanted, made.params, ""):
        raise InvalidArguments(f"{place} is {given}, and {tool.name!r} takes {takes}: write it as that")
    return made


def _retyped(wanted: Any, made: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """Yield where a value became one of another JSON type; a missing one was filled in, which is no such place."""
    given, takes = _json_type(wanted), _json_type(made)
    if place and given != takes:
        yield place, given, takes
    elif isinstance(wanted, dict) and isinstance(made, dict):
        members = cast("dict[str, Any]", made)
        for name, value in cast("dict[str, Any]", wanted).items():
            if name in members:
                yield from _retyped(value, members[name], f"{place}.{name}" if place else name)
    elif isinstance(wanted, list) and isinstance(made, list):
        several, those = cast("list[Any]", wanted), cast("list[Any]", made)
        for number, (value, member) in enumerate(zip(several, those, strict=False), 1):
            yield from _retyped(value, member, f"{place}[{number}]")


def _json_type(value: object) -> str:
    return _JSON.get(type(value), "an object")


_JSON: dict[type[object], str] = {
    type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"
}  # fmt: skip
