"""Freeze paths in a call's arguments as they will be opened, so that whoever judges a call sees that and nothing else.

`./.env` and `a/../.env` are `.env` to a rule, a person and the tool alike. Nothing here looks at a disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import normpath
from typing import Any

from ...core.digest import canonical
from ..base import Prepared


def plain_path(path: str) -> str:
    """Return a path without `.`, `..` and slashes that say nothing; one that leads out of its folder still does.

    >>> plain_path("./a//../.env"), plain_path("../.env"), plain_path("//etc/"), plain_path("")
    ('.env', '../.env', '/etc', '')
    """
    made = normpath(path) if path else ""
    return made[1:] if made.startswith("//") else made


def with_paths(prepared: Prepared, paths: Mapping[str, Any]) -> Prepared:
    """Return arguments with these in place of those of the same names, and as they are where none differs.

    >>> with_paths(Prepared('{"path": "./a", "n": 1}'), {"path": "a"}).text
    '{"n":1,"path":"a"}'
    """
    params = prepared.params
    changed = {**params, **paths}
    return prepared if changed == params else Prepared(canonical(changed))
