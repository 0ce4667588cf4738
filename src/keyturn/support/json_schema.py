"""Check arguments against a JSON schema of others, without trusting the schema.

The schema is that of an MCP server, or of an external caller: it may hold patterns that take for ever and
references to other machines. So only its plain words are read (types, required, properties, items, enum, const,
any/one/all of, local references); whoever wrote it checks the rest, and a word that cannot be read refuses nothing.
Every step counts against one budget. Where that is used up nobody can tell whether the arguments fit, and they are
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..core.strict import JsonValue

WORK = 100_000
_DEPTH = 64
_LETTERS = 256  # so many letters that are compared count as one step
_TOO_MUCH = "they cannot be checked, since the schema asks for too much work"
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
    """Raised where checking takes more steps than the budget allows."""


def misfit(schema: Mapping[str, Any], value: JsonValue) -> str | None:
    """Describe how a value does not fit a schema; None where no misfit was found.

    >>> misfit({"type": "object", "required": ["to"]}, {})
    "'to' is missing"
    >>> misfit({"properties": {"n": {"type": "integer"}}}, {"n": "3"})
    "'n' must be of type integer"
    """
    try:
        return _Check(schema).look(schema, value, (), 0)
    except (_TooMuchWork, RecursionError):
        return _TOO_MUCH


# Where a value stands: the way to what holds it, and its name there. Put into words only for a problem.
_Place = tuple[Any, ...]


class _Check:
    """Checks one value, and counts the steps that it takes."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = WORK

    def spend(self, steps: int) -> None:
        """Count steps before they are done; raise where the budget is used up."""
        self._left -= steps
        if self._left < 0:
            raise _TooMuchWork

    def look(self, schema: object, value: object, at: _Place, depth: int) -> str | None:
        self.spend(1)
        if depth > _DEPTH:
            raise _TooMuchWork
        if schema is False:
            return f"{_name(at)} is not allowed"
        if not isinstance(schema, Mapping):
            return None
        given = cast("Mapping[str, Any]", schema)
        if isinstance(given.get("$ref"), str):
            return self.look(self._referred(given["$ref"]), value, at, depth + 1)
        problem = self._type(given.get("type"), value, at) or self._choice(given, value, at)
        return problem or self._inside(given, value, at, depth) or self._several(given, value, at, depth)

    def _inside(self, schema: Mapping[str, Any], value: object, at: _Place, depth: int) -> str | None:
        if isinstance(value, dict):
            return self._object(schema, cast("dict[str, Any]", value), at, depth)
        if isinstance(value, list) and isinstance(schema.get("items"), Mapping | bool):
            places = enumerate(cast("list[Any]", value))
            found = (self.look(schema["items"], each, (at, place), depth + 1) for place, each in places)
            return next((problem for problem in found if problem), None)
        return None

    def _object(self, schema: Mapping[str, Any], value: dict[str, Any], at: _Place, depth: int) -> str | None:
        for name in self._listed(schema.get("required")):
            if isinstance(name, str) and name not in value:
                return f"{_name((at, name))} is missing"
        known: Any = schema.get("properties")
        known = cast("Mapping[str, Any]", known) if isinstance(known, Mapping) else {}
        others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        for name, each in value.items():
            problem = self.look(known.get(name, others), each, (at, name), depth + 1)
            if problem is not None:
                return problem
        return None

    def _several(self, schema: Mapping[str, Any], value: object, at: _Place, depth: int) -> str | None:
        for part in self._listed(schema.get("allOf")):
            problem = self.look(part, value, at, depth + 1)
            if problem is not None:
                return problem
        for word in ("anyOf", "oneOf"):
            found = [self.look(part, value, at, depth + 1) for part in self._listed(schema.get(word))]
            if found and all(found):
                return found[0] if len(found) == 1 else f"{_name(at)} is none of what it may be"
        return None

    def _referred(self, reference: str) -> Any:
        if not reference.startswith("#"):
            return True  # another document: nobody fetches that
        self.spend(1 + len(reference) // _LETTERS + reference.count("/"))
        here: Any = self._root
        for step in reference[1:].split("/")[1:]:
            if not isinstance(here, Mapping):
                return True
            here = cast("Mapping[str, Any]", here).get(step.replace("~1", "/").replace("~0", "~"), True)
        return here

    def _type(self, wanted: object, value: object, at: _Place) -> str | None:
        names = [wanted] if isinstance(wanted, str) else self._listed(wanted)
        known = [name for name in names if isinstance(name, str) and name in _TYPES]
        if not names or len(known) != len(names) or any(_is(name, value) for name in known):
            return None
        return f"{_name(at)} must be of type {' or '.join(dict.fromkeys(known))}"

    def _choice(self, schema: Mapping[str, Any], value: object, at: _Place) -> str | None:
        choices = [schema["const"]] if "const" in schema else self._listed(schema.get("enum"))
        if not choices:
            return None
        each_costs = self._size(value)
        for choice in choices:
            self.spend(each_costs)
            # True is 1 to Python and not to JSON.
            if choice == value and isinstance(choice, bool) == isinstance(value, bool):
                return None
        return f"{_name(at)} is none of the values it may have"

    def _listed(self, value: object) -> list[Any]:
        """Return the members of a list, all of which will be looked at."""
        members = cast("list[Any]", value) if isinstance(value, list) else []
        self.spend(len(members))
        return members

    def _size(self, value: object) -> int:
        """Return how many steps a comparison with a value takes at most; finding out is counted too."""
        size = 0
        waiting = [value]
        while waiting:
            one = waiting.pop()
            cost = 1 + (len(one) // _LETTERS if isinstance(one, str) else 0)
            if isinstance(one, dict):
                waiting.extend(cast("dict[str, Any]", one).values())
                cost += sum(len(name) // _LETTERS for name in cast("dict[str, Any]", one))
            elif isinstance(one, list):
                waiting.extend(cast("list[Any]", one))
            self.spend(cost)
            size += cost
        return size


def _is(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _name(at: _Place) -> str:
    """Describe a place in the value, such as `'a.b[0]'`."""
    steps: list[Any] = []
    while at:
        at, step = at
        steps.append(step)
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(steps))
    return repr(path.removeprefix(".")) if steps else "the whole"
