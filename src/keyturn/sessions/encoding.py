"""Encode items as JSON text and decode them, for the sessions that store text."""

from __future__ import annotations

import json
from typing import Any, cast

from ..core.errors import UserError
from ..core.items import Item


def encoded(items: list[Item]) -> list[str]:
    """Encode the items as JSON; where one of them has none, raise an error that says which.

    >>> encoded([{"role": "user", "content": "é"}])
    ['{"role":"user","content":"\\\\u00e9"}']
    """
    return [_encoded(position, item) for position, item in enumerate(items)]


def _encoded(position: int, item: Item) -> str:
    # Escaped to ASCII: no database takes a lone surrogate and PostgreSQL no NUL, which a tool's output may hold.
    try:
        return json.dumps(item, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"item {position} of the batch cannot be stored, nothing was added: {error}; "
            "session items must be plain JSON values"
        ) from error


def decoded(text: str | bytes, where: str) -> Item:
    """Decode the item of that text; `where` names the row in the error if it is none."""
    try:
        item: Any = json.loads(text)
    except ValueError as error:
        # Skipping it would hand the model a history with a hole, and perhaps a call without its output.
        raise UserError(f"{where} is not JSON ({error}): restore it, or delete it") from error
    if not isinstance(item, dict):
        raise UserError(f"{where} is a JSON {type(item).__name__}, not an item: restore it, or delete it")
    return cast("Item", item)
