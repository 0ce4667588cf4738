"""Find where a value was read as one of another JSON type than it was written in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

_NAMES: dict[type[object], str] = {
    type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"
}  # fmt: skip


def retyped(wanted: Any, made: Any, place: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield where a value became one of another JSON type; a missing one was filled in, which is no such place.

    >>> list(retyped({"to": ["ann"], "cents": "5"}, {"to": ["ann"], "cents": 5, "urgent": False}))
    [('cents', 'a text', 'a number')]
    """
    given = _name(wanted)
    takes = _name(made)
    if place and given != takes:
        yield place, given, takes
    elif isinstance(wanted, dict) and isinstance(made, dict):
        members = cast("dict[str, Any]", made)
        for name, value in cast("dict[str, Any]", wanted).items():
            if name in members:
                yield from retyped(value, members[name], f"{place}.{name}" if place else name)
    elif isinstance(wanted, list) and isinstance(made, list):
        pairs = zip(cast("list[Any]", wanted), cast("list[Any]", made), strict=False)
        for number, (value, member) in enumerate(pairs, 1):
            yield from retyped(value, member, f"{place}[{number}]")


def _name(value: object) -> str:
    return _NAMES.get(type(value), "an object")
