"""Convert JSON schemas to the strict form that OpenAI's structured outputs ask for.

Schemas go in and come out as plain dicts; nothing here knows pydantic, tools or agents. Strict means:
every object is closed, every property is required, a union is an `anyOf`, and no `$ref` has siblings.
What cannot be said in that form is a `UserError` that names the place: a schema is never widened or
narrowed without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, cast

from ..core.errors import UserError

_Schema = dict[str, Any]
_NODES = 100_000  # how many values may be copied to where they are referred to
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated"})
_REMEDY = (
    "name its fields (a BaseModel, dataclass or TypedDict), or give up strictness with strict_mode=False "
    "(for an output type: AgentOutputSchema(type, strict_json_schema=False))"
)


def ensure_strict_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the strict form of a JSON schema, as a deep copy.

    >>> ensure_strict_json_schema({"type": "object", "properties": {"a": {"default": None, "type": "null"}}})
    {'type': 'object', 'properties': {'a': {'type': 'null'}}, 'additionalProperties': False, 'required': ['a']}
    """
    root = deepcopy(schema) or {"type": "object", "properties": {}}
    _Strictness(root, schema).tighten(root, ())
    return root


class _Strictness:
    """Makes one pass over one schema; definitions are visited at their first use, so that an error names that place."""

    def __init__(self, root: _Schema, given: _Schema) -> None:
        self.root = root
        self.given = given
        self.left = _NODES
        self.visited: set[str] = set()
        self.inlining: list[str] = []

    def tighten(self, schema: object, path: tuple[str, ...]) -> None:
        if not isinstance(schema, dict):
            return  # `true` and `false` are schemas too
        node = cast("_Schema", schema)
        if node.get("default", ...) is None:
            del node["default"]
        if self._inline(node, path) or self._merge(node, path):
            return
        self._to_any_of(node, path)
        self._close(node, path)
        for child, where in _children(node, path):
            self.tighten(child, where)
        for keyword in ("$defs", "definitions"):
            for name, child in cast("_Schema", node.get(keyword) or {}).items():
                self._visit(f"#/{keyword}/{name}", child, (name,))

    def _inline(self, node: _Schema, path: tuple[str, ...]) -> bool:
        """Keep a `$ref` that stands alone and visit its target; replace one with siblings by a copy of its target."""
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return False
        if reference in self.inlining:
            # A recursive type cannot be inlined for ever: here the siblings (a description) give way.
            for sibling in [key for key in node if key != "$ref"]:
                del node[sibling]
        if len(node) == 1:
            self._visit(reference, _resolve(self.root, reference, path), path)
            return True
        del node["$ref"]
        # A copy of what was given: the target may be half way through this very pass.
        target = _resolve(self.given, reference, path)
        self._spend(target, path)
        _absorb(node, deepcopy(target), path)
        self.inlining.append(reference)
        self.tighten(node, path)
        self.inlining.pop()
        return True

    def _spend(self, target: object, path: tuple[str, ...]) -> None:
        """Count what is about to be copied: copies of copies grow without end in a hostile schema."""
        waiting = [target]
        while waiting:
            one = waiting.pop()
            self.left -= 1
            if self.left < 0:
                raise UserError(f"{_place(path)} refers to more than {_NODES} values in all: {_REMEDY}")
            if isinstance(one, dict):
                waiting.extend(cast("_Schema", one).values())
            elif isinstance(one, list):
                waiting.extend(cast("list[Any]", one))

    def _merge(self, node: _Schema, path: tuple[str, ...]) -> bool:
        every = cast("list[Any]", node.get("allOf") or [])
        if len(every) != 1 or not isinstance(every[0], dict):
            return False
        del node["allOf"]
        _absorb(node, cast("_Schema", every[0]), path)
        self.tighten(node, path)
        return True

    @staticmethod
    def _to_any_of(node: _Schema, path: tuple[str, ...]) -> None:
        if "oneOf" not in node:
            return
        if "anyOf" in node:
            raise UserError(f"{_place(path)} has both anyOf and oneOf, which strict JSON schemas cannot say: {_REMEDY}")
        node["anyOf"] = node.pop("oneOf")
        node.pop("discriminator", None)  # it belongs to oneOf, and its mapping is beyond the strict form

    @staticmethod
    def _close(node: _Schema, path: tuple[str, ...]) -> None:
        kind = node.get("type")
        if kind != "object" and not (isinstance(kind, list) and "object" in kind) and "properties" not in node:
            return
        openness = node.get("additionalProperties", ... if "properties" in node or not path else True)
        if openness not in (False, ...) or "patternProperties" in node:
            raise UserError(f"{_place(path)} takes any keys, which a strict JSON schema cannot say: {_REMEDY}")
        node.setdefault("properties", {})
        node["additionalProperties"] = False
        node["required"] = list(node["properties"])

    def _visit(self, reference: str, target: object, path: tuple[str, ...]) -> None:
        if reference not in self.visited:
            self.visited.add(reference)
            around, self.inlining = self.inlining, []  # a definition stands alone, wherever it is met first
            self.tighten(target, path)
            self.inlining = around


def _resolve(root: _Schema, reference: str, path: tuple[str, ...]) -> _Schema:
    if reference.startswith("#/"):
        found: Any = root
        for key in reference[2:].split("/"):
            plain = key.replace("~1", "/").replace("~0", "~")
            found = cast("_Schema", found).get(plain) if isinstance(found, dict) else None
        if isinstance(found, dict):
            return cast("_Schema", found)
    raise UserError(f"{_place(path)} refers to {reference!r}, which is not in its schema")


def _place(path: tuple[str, ...]) -> str:
    return f"parameter {'.'.join(path)!r}" if path else "the schema"


def _children(node: _Schema, path: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    for name, child in cast("_Schema", node.get("properties") or {}).items():
        yield child, (*path, name)
    for keyword in ("items", "prefixItems", "anyOf", "allOf"):
        below: Any = node.get(keyword)
        for child in cast("list[Any]", below) if isinstance(below, list) else [below]:
            yield child, path


def _absorb(node: _Schema, other: _Schema, path: tuple[str, ...]) -> None:
    """Merge what a place says of itself over what it refers to; only annotations may differ."""
    for key in node.keys() & other.keys() - _ANNOTATIONS:
        if node[key] != other[key]:
            raise UserError(f"{_place(path)} narrows {key!r} twice, which a strict JSON schema cannot say: {_REMEDY}")
    merged = {**other, **node}
    node.clear()
    node.update(merged)
