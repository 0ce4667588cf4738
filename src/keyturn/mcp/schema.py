"""Whether arguments fit a remote tool's schema, as far as that can be told without trusting the schema.

The schema is the server's: it may hold patterns that take for ever and references to other machines. So only its plain
words are read (types, required, properties, items, enum, const, any/one/all of, local references), with a bound on the
work; the server itself checks the rest. A schema that cannot be read refuses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..core.strict import JsonValue

_WORK = 20_000
_DEPTH = 64
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "null": (type(None),),
}


class _TooMuchWork(Exception):
    pass


def misfit(schema: Mapping[str, Any], value: JsonValue) -> str | None:
    """What of a value does not fit a schema, in words; None where nothing was found.

    >>> misfit({"type": "object", "required": ["to"]}, {})
    "'to' is missing"
    >>> misfit({"properties": {"n": {"type": "integer"}}}, {"n": "3"})
    "'n' must be of type integer"
    """
    try:
        return _Check(schema).look(schema, value, "", 0)
    except (_TooMuchWork, RecursionError):
        return None


class _Check:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root, self._left = root, _WORK

    def look(self, schema: Any, value: Any, at: str, depth: int) -> str | None:
        self._left -= 1
        if self._left < 0 or depth > _DEPTH:
            raise _TooMuchWork
        if schema is False:
            return f"{_name(at)} is not allowed"
        if not isinstance(schema, Mapping):
            return None
        given = cast("Mapping[str, Any]", schema)
        if isinstance(given.get("$ref"), str):
            return self.look(self._referred(given["$ref"]), value, at, depth + 1)
        problem = _type(given.get("type"), value, at) or _choice(given, value, at)
        return problem or self._inside(given, value, at, depth) or self._several(given, value, at, depth)

    def _inside(self, schema: Mapping[str, Any], value: Any, at: str, depth: int) -> str | None:
        if isinstance(value, dict):
            return self._object(schema, cast("dict[str, Any]", value), at, depth)
        if isinstance(value, list) and isinstance(schema.get("items"), Mapping | bool):
            places = enumerate(cast("list[Any]", value))
            found = (self.look(schema["items"], each, f"{at}[{place}]", depth + 1) for place, each in places)
            return next((problem for problem in found if problem), None)
        return None

    def _object(self, schema: Mapping[str, Any], value: dict[str, Any], at: str, depth: int) -> str | None:
        required: Any = schema.get("required")
        for name in cast("list[Any]", required) if isinstance(required, list) else []:
            if isinstance(name, str) and name not in value:
                return f"{_name(_below(at, name))} is missing"
        known: Any = schema.get("properties")
        known = cast("Mapping[str, Any]", known) if isinstance(known, Mapping) else {}
        others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        for name, each in value.items():
            problem = self.look(known.get(name, others), each, _below(at, name), depth + 1)
            if problem is not None:
                return problem
        return None

    def _several(self, schema: Mapping[str, Any], value: Any, at: str, depth: int) -> str | None:
        for part in _schemas(schema.get("allOf")):
            problem = self.look(part, value, at, depth + 1)
            if problem is not None:
                return problem
        for word in ("anyOf", "oneOf"):
            found = [self.look(part, value, at, depth + 1) for part in _schemas(schema.get(word))]
            if found and all(found):
                return found[0] if len(found) == 1 else f"{_name(at)} is none of what it may be"
        return None

    def _referred(self, reference: str) -> Any:
        if not reference.startswith("#"):
            return True  # another document: nobody fetches that
        here: Any = self._root
        for step in reference[1:].split("/")[1:]:
            if not isinstance(here, Mapping):
                return True
            here = cast("Mapping[str, Any]", here).get(step.replace("~1", "/").replace("~0", "~"), True)
        return here


def _schemas(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _type(wanted: Any, value: Any, at: str) -> str | None:
    names = [wanted] if isinstance(wanted, str) else _schemas(wanted)
    known = [name for name in names if name in _TYPES]
    if not names or len(known) != len(names) or any(_is(name, value) for name in known):
        return None
    return f"{_name(at)} must be of type {' or '.join(known)}"


def _is(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _choice(schema: Mapping[str, Any], value: Any, at: str) -> str | None:
    choices = [schema["const"]] if "const" in schema else _schemas(schema.get("enum"))
    # True is 1 to Python and not to JSON.
    if not choices or any(each == value and isinstance(each, bool) == isinstance(value, bool) for each in choices):
        return None
    return f"{_name(at)} is none of the values it may have"


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _name(at: str) -> str:
    return repr(at) if at else "the whole"
