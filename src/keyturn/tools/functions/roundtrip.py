"""Check that arguments survive a round trip: what was shown to a person must read back as exactly what runs.

Types that lose something on paper (secrets, excluded fields, two-faced aliases) are found in pydantic's
core schema when the tool is declared; the rest is for `schema.py` to notice on the call itself. Nothing
here validates or prints.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from ...core.digest import canonical, same
from ...core.errors import UserError
from ...core.strict import JsonValue

SECRET_MARK = "keyturn_secret"
_Node = dict[str, Any]
_Path = tuple[str, ...]
# Not schemas, or schemas of a way in that JSON never takes.
_ASIDE = frozenset(
    {"default", "metadata", "serialization", "config", "function", "members", "expected"}
    | {"computed_fields", "python_schema", "strict_schema"}
)
_KINDS = {
    "generator": "is an Iterable, which can be read only once and is checked while it is read: use list[...]",
    "is-subclass": "is a class, which no JSON can carry: use an Enum or Literal of names and look the class up",
}


class Survey(msgspec.Struct, frozen=True):
    """Holds what the types of a tool's parameters need: which secrets to redact, and whether any is a set.

    `runs_code` says that reading runs code of the user or of a library, which may read one text in two ways.
    """

    secrets: tuple[str, ...]
    has_sets: bool
    runs_code: bool


def survey(fields: Mapping[str, Any], definitions: list[Any]) -> Survey:
    """Inspect the core schema of every parameter; a `UserError` names the first that cannot print back."""
    by_ref = {cast("str", each["ref"]): each for each in definitions}
    secrets: list[str] = []
    has_sets = runs_code = False
    for name, field in fields.items():
        for path, node in _nodes(field, (name,), by_ref, set()):
            objection = _objection(node, path[-1])
            if objection is not None:
                raise UserError(f"parameter {'.'.join(path)!r} {objection}")
            if SECRET_MARK in node.get("metadata", ()) and name not in secrets:
                secrets.append(name)
            has_sets = has_sets or node["type"] in ("set", "frozenset")
            runs_code = runs_code or _runs_code(node)
    return Survey(tuple(secrets), has_sets, runs_code)


def _nodes(schema: object, path: _Path, by_ref: Mapping[str, Any], seen: set[str]) -> Iterator[tuple[_Path, _Node]]:
    if isinstance(schema, list | tuple):
        for each in cast("list[Any]", schema):
            yield from _nodes(each, path, by_ref, seen)
    if not isinstance(schema, dict):
        return
    node = cast("_Node", schema)
    kind = node.get("type")
    if not isinstance(kind, str):  # not a node but a map of them: the fields of a model, the tags of a union
        for name, each in node.items():
            yield from _nodes(each, (*path, str(name)), by_ref, seen)
        return
    if kind.endswith("-field") and "name" in node:
        path = (*path, node["name"])
    yield path, node
    reference: Any = node.get("schema_ref")
    if reference in by_ref and reference not in seen:
        seen.add(reference)
        yield from _nodes(by_ref[reference], path, by_ref, seen)
    for key, each in node.items():
        if key not in _ASIDE:
            yield from _nodes(each, path, by_ref, seen)


def _runs_code(node: _Node) -> bool:
    """Return whether a node calls a function: a validator, a constructor, a lookup of a member, a discriminator."""
    hooks = ("post_init", "custom_init", "missing")
    called = node["type"].startswith(("function-", "call", "named-tuple")) or callable(node.get("discriminator"))
    return called or any(node.get(name) for name in hooks)


def _objection(node: _Node, name: str) -> str | None:
    kind: str = node["type"]
    function: Any = node.get("serialization", {}).get("function")
    if getattr(function, "__module__", None) == "pydantic.types":
        if "secret" in function.__name__:
            return (
                "prints as asterisks, so that what runs could not be what was approved: use Annotated[str, Secret], "
                "which is redacted only where it is displayed"
            )
        if "ImportString" in function.__qualname__:
            return "runs an import while it is checked, before it could be approved: use str"
    return _field_objection(node, name) if kind.endswith("-field") else _KINDS.get(kind)


def _field_objection(node: _Node, name: str) -> str | None:
    if node.get("serialization_exclude"):
        return "is excluded from what is printed, so that no approver could see it before it runs: remove exclude=True"
    if node.get("init_only") or node.get("init") is False:
        return "is an InitVar or init=False field, which is either read or printed but not both: make it a plain field"
    read: Any = node.get("validation_alias", name)
    printed = node.get("serialization_alias", name)
    accepted = cast("list[Any]", read if isinstance(read, list) else [read])
    if printed not in accepted and [printed] not in accepted:
        return f"is printed as {printed!r} but read under another name: give it one name with alias="
    return None


def in_order(value: object, printed: Any) -> Any:
    """Sort what was printed of sets, whose own order differs from one process to the next.

    `value` is the object that was printed; the two are walked side by side, in the order of printing.
    """
    parts = _parts(value, printed)
    if parts is None:
        return printed
    if isinstance(printed, dict):
        named = cast("dict[str, Any]", printed).items()
        return {key: in_order(part, each) for part, (key, each) in zip(parts, named, strict=True)}
    each_in_order = [in_order(part, each) for part, each in zip(parts, printed, strict=True)]
    return sorted(each_in_order, key=canonical) if isinstance(value, set | frozenset) else each_in_order


def _parts(value: Any, printed: object) -> list[Any] | None:
    """Return the parts of an object that was printed part by part; None where its own serializer did otherwise."""
    parts: list[Any] | None = None
    if isinstance(printed, list) and isinstance(value, list | tuple | set | frozenset | deque):
        parts = list(cast("list[Any]", value))
    elif isinstance(printed, dict) and isinstance(value, Mapping):
        parts = list(cast("Mapping[Any, Any]", value).values())
    elif isinstance(printed, dict) and dataclasses.is_dataclass(value):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(printed, dict) and hasattr(value, "__pydantic_fields_set__"):
        own = cast("dict[str, Any]", vars(value))
        extra = cast("dict[str, Any]", getattr(value, "__pydantic_extra__", None) or {})
        parts = [*own.values(), *extra.values()]
    return parts if parts is not None and len(parts) == len(cast("list[Any]", printed)) else None


def agree_where_given(given: JsonValue, first: JsonValue, second: JsonValue) -> bool:
    """Return whether two printings differ only in what the model left to defaults.

    A default such as `0` for a Decimal takes its type's form only when it is read back; what the model
    itself said must not move at all.
    """
    if isinstance(given, dict) and isinstance(first, dict) and isinstance(second, dict):
        kept = given.keys() & first.keys()
        return kept <= second.keys() and all(agree_where_given(given[key], first[key], second[key]) for key in kept)
    if isinstance(given, list) and isinstance(first, list) and isinstance(second, list):
        same_length = len(given) == len(first) == len(second)
        return same(first, second) if not same_length else all(map(agree_where_given, given, first, second))
    return same(first, second)
