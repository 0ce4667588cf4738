"""Python values as the facts a log can hold."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import msgspec

from ..core.errors import UserError
from ..core.items import Item, input_items, own_copy

_MOST = 1 << 20  # a tool's value beyond that is not kept beside its text, which is cut in plain sight


def checked_items(given: str | list[Any]) -> list[Item]:
    """What a caller passes as input, as items that a log can hold and nobody else has; `UserError` where it cannot."""
    try:
        items = input_items(given)
        msgspec.json.encode(items)
        return own_copy(items)
    except UnicodeEncodeError:  # half a character: the log knows what to do with it
        return own_copy(input_items(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"the input must be a text or a list of JSON items: {error}") from None


def jsonable(value: Any) -> Any:
    """A value as JSON, as faithfully as it goes; what JSON cannot hold becomes its text."""
    if value is None or isinstance(value, str | bool):
        return value
    try:
        return msgspec.json.decode(_text(value))
    except Exception:  # whatever a user's object raises while it is dumped, the fact is still recorded
        return f"<{type(value).__name__}>"


def kept(value: Any) -> Any:
    """A value as JSON beside the text that the model reads; None where JSON cannot hold it or it is too large."""
    if value is None or isinstance(value, str):
        return None
    try:
        text = _text(value)
        return msgspec.json.decode(text) if len(text) <= _MOST else None
    except Exception:  # whatever a user's object raises while it is dumped: its text stands for it
        return None


def _text(value: Any) -> bytes:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        value = dump(mode="json")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(cast("Any", value))
    return msgspec.json.encode(value)
