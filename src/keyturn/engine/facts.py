"""Python values as the facts a log can hold."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import msgspec


def jsonable(value: Any) -> Any:
    """A value as JSON, as faithfully as it goes; what JSON cannot hold becomes its text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    dump = getattr(value, "model_dump", None)
    try:
        if dump is not None:
            value = dump(mode="json")
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = dataclasses.asdict(cast("Any", value))
        return msgspec.json.decode(msgspec.json.encode(value))
    except Exception:  # whatever a user's object raises while it is dumped, the fact is still recorded
        return f"<{type(value).__name__}>"
