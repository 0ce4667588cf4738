"""Find the member of an object that a name means, or say that it is ambiguous.

The model chooses the names that it sends, and the tool which of them it reads. Many readers of JSON ignore case, some
take `maxAmount` for `max_amount` or `"a.b"` for a path, and most take the last of those that are alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from .reading import CannotTell, folded, opened

MISSING = object()
# What may join the names of a way into objects: "a.b", "a[b]", "a/b", "a__b".
_JOINED = re.compile(r"[^A-Za-z0-9_-]|__")
# Each name of an object is read for each comparison that goes into it.
MOST_NAMES = 1_000
MOST_CHARACTERS = 20_000


def at(params: Mapping[str, Any], name: str) -> Any:
    """Return the argument of a name; a dot goes into an object.

    >>> at({"to": {"country": "de"}}, "to.country"), at({"to": None}, "to.country") is MISSING
    ('de', True)
    """
    if "." not in name:
        return member(params, (name,))
    parts = name.split(".")
    value: Any = params
    for place in range(len(parts)):
        if value is MISSING or (value is None and place):
            return MISSING
        if not isinstance(value, Mapping):
            raise CannotTell("what it should be in is not an object")
        value = member(cast("Mapping[str, Any]", value), parts[place:])
    return value


def member(params: Mapping[str, Any], parts: Sequence[str]) -> Any:
    """Return the member that the first of some names means; raise `CannotTell` where it is ambiguous.

    >>> member({"a": 1}, ["a", "b"]), member({"b": 1}, ["a"]) is MISSING
    (1, True)
    >>> member({"a": {}, "A.B": 5}, ["a", "b", "c"])
    Traceback (most recent call last):
    ...
    keyturn.core.predicates.reading.CannotTell: two arguments could have that name
    """
    first = parts[0]
    if len(params) == 1 and first in params:
        return params[first]
    if len(params) > MOST_NAMES or sum(map(len, params)) > MOST_CHARACTERS:
        raise CannotTell("there are too many arguments beside it")
    wanted = _key(first)
    longer = {_letters(".".join(parts[:end])) for end in range(2, len(parts) + 1)}
    for key in params:
        if key == first:
            continue
        near = _key(key)
        if near == wanted:
            raise CannotTell("another argument has nearly the same name")
        if longer and _JOINED.search(key) is not None and _letters(key) in longer:
            raise CannotTell("two arguments could have that name")
    return params.get(first, MISSING)


def _key(name: str) -> str:
    made = name.lower() if name.isascii() and name.isprintable() and " " not in name else folded(name)
    return made.replace("_", "").replace("-", "")


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, folded(opened(name))))
