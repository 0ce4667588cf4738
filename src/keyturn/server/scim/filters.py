"""Read filters of SCIM (RFC 7644, 3.4.2.2), bounded, and tell whether a resource fits one.

Names of attributes are compared without regard to case, and so are texts, but of attributes whose case is exact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from .errors import ScimRefused

_LONGEST = 2_000
_DEEPEST = 10
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([()\[\]])|([^\s()\[\]"]+))')
_EXACT = ("id", "externalid", "value", "$ref")
Fits = Callable[[dict[str, Any]], bool]


class Part(NamedTuple):
    """Names an attribute, and which of its values are meant, as a path of PATCH does: `members[value eq "ada"]`."""

    attribute: str
    fits: Fits | None = None


def parsed(text: str) -> Fits:
    """Return what tells whether a resource fits a filter, or raise `ScimRefused`.

    >>> parsed('userName eq "ADA" and active eq true')({"userName": "ada", "active": True})
    True
    >>> parsed('not (members[value eq "ada"])')({"members": [{"value": "ada"}]})
    False
    """
    reader = _Reader(text)
    fits = reader.either(0)
    reader.must_end()
    return fits


def part_of(path: str) -> Part:
    """Return what a path of PATCH names: an attribute, without the name of its schema, and a filter in brackets.

    >>> part_of("urn:ietf:params:scim:schemas:core:2.0:User:displayName").attribute
    'displayname'
    """
    name, bracket, rest = path.strip().partition("[")
    attribute = name.rpartition(":")[2].lower()
    if not bracket:
        return Part(attribute)
    inner, _, after = rest.rpartition("]")
    if not inner or not re.fullmatch(r"(\.\w+)?", after):
        raise ScimRefused(f"the path {path[:100]!r} is not one of SCIM", "invalidPath")
    return Part(attribute + after.lower(), parsed(inner))


class _Reader:
    """Reads the tokens of a filter."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise _bad(f"a filter has at most {_LONGEST} characters")
        self._tokens, place = list[str](), 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None:
                raise _bad("it has a text without an end")
            self._tokens.append(next(filter(None, found.groups())))
            place = found.end()

    def _next(self) -> str:
        if not self._tokens:
            raise _bad("it ends too soon")
        return self._tokens.pop(0)

    def _takes(self, word: str) -> bool:
        if self._tokens and self._tokens[0].lower() == word:
            self._tokens.pop(0)
            return True
        return False

    def must_end(self) -> None:
        """Refuse what follows a whole filter."""
        if self._tokens:
            raise _bad(f"{self._tokens[0]!r} is not expected there")

    def either(self, depth: int) -> Fits:
        """Read terms with "or" between them."""
        terms = [self._all(depth)]
        while self._takes("or"):
            terms.append(self._all(depth))
        return lambda resource: any(term(resource) for term in terms)

    def _all(self, depth: int) -> Fits:
        terms = [self._term(depth)]
        while self._takes("and"):
            terms.append(self._term(depth))
        return lambda resource: all(term(resource) for term in terms)

    def _term(self, depth: int) -> Fits:
        if depth > _DEEPEST:
            raise _bad(f"it is more than {_DEEPEST} brackets deep")
        if self._takes("not"):
            inner = self._term(depth + 1)
            return lambda resource: not inner(resource)
        if self._takes("("):
            inner = self.either(depth + 1)
            self._closes(")")
            return inner
        return self._compared(self._next(), depth)

    def _closes(self, bracket: str) -> None:
        if not self._takes(bracket):
            raise _bad(f"a {bracket!r} is missing")

    def _compared(self, attribute: str, depth: int) -> Fits:
        path = attribute.rpartition(":")[2].lower().split(".")
        if attribute[:1] in '"()[]':
            raise _bad(f"{attribute[:20]!r} is not an attribute")
        if self._takes("["):
            inner = self.either(depth + 1)
            self._closes("]")
            return lambda resource: any(map(inner, _objects(values_of(resource, path))))
        operator = self._next().lower()
        if operator == "pr":
            return lambda resource: any(each not in (None, "", []) for each in values_of(resource, path))
        compare = _OPERATORS.get(operator)
        if compare is None:
            raise _bad(f"{operator[:20]!r} is no operator")
        wanted = _folded(_literal(self._next()), path[-1])
        if operator == "ne":
            return lambda resource: all(_folded(each, path[-1]) != wanted for each in values_of(resource, path))
        return lambda resource: any(compare(_folded(each, path[-1]), wanted) for each in values_of(resource, path))


def values_of(resource: dict[str, Any], path: list[str]) -> list[Any]:
    """Return the values at the path of an attribute, of all members of a list."""
    found: list[Any] = [resource]
    for name in path:
        inner = _objects(found)
        found = []
        for each in inner:
            value = next((kept for key, kept in each.items() if key.lower() == name), None)
            found += cast("list[Any]", value) if isinstance(value, list) else [value]
    if len(path) == 1 and found and all(isinstance(each, dict) for each in found):
        return [*found, *(cast("dict[str, Any]", each).get("value") for each in found)]
    return found


def _objects(values: list[Any]) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", each) for each in values if isinstance(each, dict)]


def _literal(token: str) -> Any:
    try:
        value: Any = json.loads(token if token[:1] == '"' else token.lower())
    except ValueError:
        raise _bad(f"{token[:20]!r} is not a value: write texts in double quotes") from None
    if not isinstance(value, str | bool | int | float | None):
        raise _bad(f"{token[:20]!r} is not a value")
    return value


def _folded(value: Any, name: str) -> Any:
    return value.casefold() if isinstance(value, str) and name not in _EXACT else value


def _texts(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda one, other: isinstance(one, str) and isinstance(other, str) and compare(one, other)


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal,
    "ne": lambda one, other: not _equal(one, other),
    "co": _texts(lambda one, other: other in one),
    "sw": _texts(str.startswith),
    "ew": _texts(str.endswith),
    "gt": _texts(lambda one, other: one > other),
    "ge": _texts(lambda one, other: one >= other),
    "lt": _texts(lambda one, other: one < other),
    "le": _texts(lambda one, other: one <= other),
}


def _bad(why: str) -> ScimRefused:
    return ScimRefused(f"the filter cannot be read: {why}", "invalidFilter")
