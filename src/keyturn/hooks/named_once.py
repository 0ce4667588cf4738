"""Read JSON with the standard library alone, and refuse what two readers take for two values: a name twice."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes) -> Any:
    """Return a value of JSON; raise `ValueError` where an object has a name twice: readers take the first or the last.

    >>> parsed('{"command": "ls"}')
    {'command': 'ls'}
    >>> parsed('{"command": "ls", "command": "rm"}')
    Traceback (most recent call last):
    ...
    ValueError: a name occurs twice in one object
    """
    return json.loads(text, object_pairs_hook=_named_once)


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return made
