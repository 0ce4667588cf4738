"""Say what moving a file is besides: one file is deleted, and one is created.

A tool is asked of both, and a rule means both; a rule is also asked where no tool is at hand, as in a replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def besides(operation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the operations that one operation of a patch is besides, as JSON has them.

    >>> list(besides({"type": "update_file", "path": "src/a", "move_to": "etc/b"}))
    [{'type': 'delete_file', 'path': 'src/a'}, {'type': 'create_file', 'path': 'etc/b'}]
    """
    place = operation.get("move_to")
    if place is None:
        return
    yield {"type": "delete_file", "path": operation.get("path")}
    diff = {} if operation.get("diff") is None else {"diff": operation["diff"]}
    yield {"type": "create_file", "path": place, **diff}
