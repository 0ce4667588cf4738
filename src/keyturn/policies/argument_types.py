"""Look up an argument in a tool's JSON schema, and say why a comparison can never decide on it (schema lint).

A schema may be anybody's: what is not understood here may be anything, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, cast

from ..core.declared import properties_of
from ..core.predicates.comparisons import OF_MEMBERS, ORDER, comparisons, kind_of
from ..core.predicates.reading import CannotTell

Schema = Mapping[str, Any]
_KINDS = {"string": "text", "integer": "number", "number": "number", "boolean": "truth", "array": "list"}
_NAMES = {"text": "a text", "number": "a number", "truth": "true or false", "list": "a list", "object": "an object"}
_DEEPEST = 16


class Unsure(Enum):
    """Says why there is no schema of an argument: nothing is known, there is none, or it is inside of a list."""

    ANYTHING = "anything"
    MISSING = "missing"
    IN_A_LIST = "in a list"


def argument(schema: Schema, name: str) -> list[Schema] | Unsure:
    """Return the alternatives that the schema of an argument has; a dot goes into an object.

    >>> argument({"properties": {"to": {"properties": {"city": {"type": "string"}}}}}, "to.city")
    [{'type': 'string'}]
    """
    found: list[Schema] | Unsure = [*_alternatives(schema, schema)]
    for part in name.split("."):
        found = _member(found, part, schema)
        if isinstance(found, Unsure):
            return found
    return found


def names_in(schema: Schema, name: str = "") -> list[str]:
    """Return the arguments that a schema declares beside the one of a name, each with the way to it."""
    way = name.split(".")[:-1]
    inside = argument(schema, ".".join(way)) if way else [*_alternatives(schema, schema)]
    if isinstance(inside, Unsure):
        return names_in(schema)
    return [".".join([*way, each]) for one in inside for each in properties_of(one)]


def _member(inside: Sequence[Schema], name: str, root: Schema) -> list[Schema] | Unsure:
    found: list[Schema] = []
    sure = [each for each in inside if _kind(each) in ("object", None)]
    for each in sure:
        declared = properties_of(each)
        if name in declared:
            found += _alternatives(declared[name], root)
        elif each.get("additionalProperties", bool(not declared)) is not False:
            return Unsure.ANYTHING
    if not sure and any(_kind(each) == "list" for each in inside):
        return Unsure.IN_A_LIST
    return found or Unsure.MISSING


def _alternatives(schema: object, root: Schema, depth: int = 0) -> Iterator[Schema]:
    """Yield what a schema may be, with references followed; an empty one where it may be anything."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        yield {}
        return
    given = cast("Schema", schema)
    several: Any = given.get("anyOf", given.get("oneOf"))
    whole: Any = given.get("allOf")
    if isinstance(given.get("$ref"), str):
        yield from _alternatives(_at(root, given["$ref"]), root, depth + 1)
    elif isinstance(several, list):
        for each in cast("list[Any]", several):
            yield from _alternatives(each, root, depth + 1)
    elif isinstance(whole, list):
        only = cast("list[Any]", whole)
        yield from _alternatives(only[0] if len(only) == 1 else {}, root, depth + 1)
    else:
        yield given


def _at(root: Schema, reference: str) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        found = cast("Schema", found).get(part) if isinstance(found, Mapping) else None
    return found


def _values(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    listed: Any = schema.get("enum")
    return cast("list[Any]", listed) if isinstance(listed, list) else None


def _kind(schema: Schema) -> str | None:
    """Return the JSON type of a schema in a word, None where it may be several or any."""
    stated: Any = schema.get("type")
    if isinstance(stated, str):
        return _KINDS.get(stated, stated)
    if stated is None and "properties" in schema:
        return "object"
    kinds = {_kind_of(value) for value in _values(schema) or ()}
    return kinds.pop() if len(kinds) == 1 else None


def _kind_of(value: object) -> str | None:
    try:
        return kind_of(value)
    except CannotTell:
        return None


def misfit(name: str, condition: object, found: Sequence[Schema], root: Schema) -> str:
    """Return why a condition can never decide on an argument; "" where it can.

    >>> schema = {"properties": {"commands": {"type": "array", "items": {"type": "string"}}}}
    >>> misfit("commands", {"matches": "rm .*"}, argument(schema, "commands"), schema).split(":")[0]
    "'commands' is a list, which 'matches' cannot compare"
    """
    kinds = {_kind(each) for each in found}
    if None in kinds:
        return ""
    for operator, operand in comparisons(condition):
        wrong = _wrong(operator, operand, cast("set[str]", kinds), found)
        if wrong:
            return f"{name!r} {wrong}"
        if operator in OF_MEMBERS:
            inner = [one for each in found if _kind(each) == "list" for one in _alternatives(each.get("items"), root)]
            within = misfit(f"{name}[]", operand, inner, root)
            if within:
                return within
    return ""


def _wrong(operator: str, operand: object, kinds: set[str], found: Sequence[Schema]) -> str:
    wanted = _wanted(operator, operand)
    here = " or ".join(sorted(_NAMES[kind] for kind in kinds if kind in _NAMES))
    if wanted is not None and not wanted & kinds:
        if "list" in kinds:
            remedy = f"write {{ any = {{ {operator} = ... }} }} or {{ all = {{ {operator} = ... }} }}"
            return f"is {here}, which {operator!r} cannot compare: {remedy}"
        if operator in OF_MEMBERS:
            return f"is {here}, which has no members: compare it without {operator!r}"
        said = " or ".join(sorted(_NAMES[kind] for kind in wanted if kind in _NAMES))
        return f"is {here}, which {operator!r} cannot compare with {said}"
    return _unlisted(operator, operand, found)


def _wanted(operator: str, operand: object) -> set[str] | None:
    """Return of which types an argument must be for a comparison to decide; None for any."""
    if operator in OF_MEMBERS:
        return {"list"}
    if operator in ("matches", "under"):
        return {"text"}
    if operator in ORDER:
        return {str(_kind_of(operand))}
    values = cast("list[Any]", operand) if operator == "one_of" and isinstance(operand, list | tuple) else [operand]
    return None if None in values or not values else {str(_kind_of(value)) for value in values}


def _unlisted(operator: str, operand: object, found: Sequence[Schema]) -> str:
    """Say which value of a comparison an argument never has, where its schema lists all that it may have."""
    if operator not in ("eq", "one_of"):
        return ""
    wanted = cast("list[Any]", operand) if operator == "one_of" else [operand]
    listed: list[Any] = []
    for each in found:
        values = _values(each)
        if values is None and _kind(each) != "null":
            return ""
        listed += values or []
    never = [value for value in wanted if value is not None and value not in listed]
    return f"is never {never[0]!r}; it is one of {', '.join(map(repr, listed))}" if never and listed else ""
