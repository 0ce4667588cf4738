"""Compare JSON values by type: where a value became one of another type on its way through a schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast


def retyped(wanted: object, made: object, place: str) -> Iterator[tuple[str, str, str]]:
    """Yield where a value became one of another JSON type; a missing one was filled in, which is no such place."""
    given = _json_type(wanted)
    takes = _json_type(made)
    if place and given != takes:
        yield place, given, takes
    elif isinstance(wanted, dict) and isinstance(made, dict):
        members = cast("dict[str, Any]", made)
        for name, value in cast("dict[str, Any]", wanted).items():
            if name in members:
                yield from retyped(value, members[name], f"{place}.{name}" if place else name)
    elif isinstance(wanted, list) and isinstance(made, list):
        several = cast("list[Any]", wanted)
        those = cast("list[Any]", made)
        for number, (value, member) in enumerate(zip(several, those, strict=False), 1):
            yield from retyped(value, member, f"{place}[{number}]")


def _json_type(value: object) -> str:
    return _JSON.get(type(value), "an object")


_JSON: dict[type[object], str] = {
    type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"
}  # fmt: skip
