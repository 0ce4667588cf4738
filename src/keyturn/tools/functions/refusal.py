"""Describe why a text does not fit a pydantic type: each place and what was expected there.

The words are for a model that will try again. They never hold a Python stack, a link or a whole input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...core.errors import BadJson
from ...support.user_code import class_name

_MOST, _LONGEST = 8, 300
_JSON_TYPES: dict[type[object], str] = {
    type(None): "null", bool: "a boolean", int: "an integer", float: "a number with a fraction", str: "a string",
    list: "an array", dict: "an object",
}  # fmt: skip
_OWN_WORDS = {
    "missing": "a value is required",
    "missing_argument": "a value is required",
    "missing_keyword_only_argument": "a value is required",
    "extra_forbidden": "there is no such field",
    "unexpected_keyword_argument": "there is no such field",
}


def cause(error: Exception) -> Exception | None:
    """Return the exception of a check that crashed, for the developer; None for one that refused."""
    from pydantic import ValidationError

    return None if isinstance(error, ValidationError | BadJson) else error


def complaints(error: Exception, fields: Iterable[str] = ()) -> str:
    """Return the lines that say what is wrong; `fields` are the names to offer where one does not exist.

    >>> complaints(RuntimeError("disk full"))
    'the check itself failed (RuntimeError)'
    """
    from pydantic import ValidationError  # whoever calls this has loaded pydantic already

    if isinstance(error, BadJson):
        return str(error)
    if not isinstance(error, ValidationError):
        # The text of an unforeseen error is the developer's business, not the model's.
        return f"the check itself failed ({class_name(error)})"
    found = error.errors(include_url=False, include_context=False)
    lines = [_line(each["loc"], each["type"], _message(dict(each)), fields) for each in found[:_MOST]]
    if len(found) > _MOST:
        lines.append(f"and {len(found) - _MOST} more")
    return "; ".join(lines)


def _message(found: Mapping[str, Any]) -> str:
    """Return pydantic's words and the JSON type that was given; never the input itself, which may be secret."""
    value: object = found["input"]
    given = _JSON_TYPES.get(type(value)) if found["type"].endswith("_type") else None
    return f"{found['msg']}, not {given}" if given else found["msg"]


def _line(place: tuple[int | str, ...], kind: str, message: str, fields: Iterable[str]) -> str:
    said = _OWN_WORDS.get(kind, message)
    if len(place) == 1 and said == _OWN_WORDS["extra_forbidden"]:
        names = ", ".join(fields)
        said = f"{said}, only {names}" if names else f"{said}, and none is needed"
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
    return _cut(f"{path}: {said}" if path else said)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
