"""Cut lists into pages that neither skip nor repeat: the next one begins after the key of the last row."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Path, Query

from ...core.errors import UserError

_KEY = re.compile(r"([0-9]{1,18})\.(.{1,200})", re.DOTALL)

#: How an id stands in a path: as long as any of ours, and of letters that every id has.
IdPath = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^[0-9A-Za-z_.@-]+$")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
After = Annotated[str | None, Query(max_length=250, description="The `next` of the page before.")]
Place = Annotated[int, Query(ge=0, le=10_000_000, alias="after", description="The `next` of the page before.")]
Name = Annotated[str | None, Query(min_length=1, max_length=200)]
Newest = Annotated[bool, Query(description="The newest first.")]


def key_of(at: int, name: str) -> str:
    """Write the key of a row as `after` takes it.

    >>> key_of(5, "5e1f")
    '5.5e1f'
    """
    return f"{at}.{name}"


def after_of(given: str | None) -> tuple[int, str] | None:
    """Read the key of a row, or refuse what is none.

    >>> after_of("5.5e1f")
    (5, '5e1f')
    """
    if given is None:
        return None
    found = _KEY.fullmatch(given)
    if found is None or "\x00" in given:
        raise UserError("after is the `next` of the page before, as it came")
    return int(found[1]), found[2]


def plain(*given: str | None) -> None:
    """Refuse a filter that no store could hold."""
    for text in given:
        if text is not None and "\x00" in text:
            raise UserError("a filter holds a NUL; write it without")
