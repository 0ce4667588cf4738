"""Put as many of a call's arguments into one row as it has room for, each whole."""

from __future__ import annotations

import json
from typing import Any

from .arguments import shown_name


def first_arguments(given: dict[str, Any], room: int) -> str:
    """Return the first arguments that a row has room for, each whole, and a mark that says how many it has not.

    The row is not escaped yet.

    >>> first_arguments({"to": "ada", "text": "a long one"}, 30)
    '  to: "ada", [1 more]'
    """
    best = ""
    row = "  "
    for count, (name, value) in enumerate(given.items(), 1):
        row += f"{shown_name(name)}: {json.dumps(value, ensure_ascii=False)}"
        if len(row) > room:
            break
        marked = row if count == len(given) else f"{row}, [{len(given) - count} more]"
        best = marked if len(marked) <= room else best
        row += ", "
    return best
