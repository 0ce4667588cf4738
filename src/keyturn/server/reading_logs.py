"""Bound what reads the logs of a whole store for a request: one at a time, and for so long at most.

Whoever asks is told where the bound was met, and what has none: the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ..core.errors import KeyturnError

#: Seconds that a search, and the reading of every log of a store, may take over HTTP.
SEARCH_SECONDS = 8.0
WHOLE_SECONDS = 60.0


class TookTooLong(KeyturnError):
    """Raised where reading the logs took longer than a server takes for one request.

    >>> TookTooLong("verifying").message
    'verifying took too long'
    """

    def __init__(self, what: str, more: str = "") -> None:
        super().__init__(f"{what} took too long{more}")


@asynccontextmanager
async def reading_logs(state: Any, what: str, command: str) -> AsyncGenerator[None]:
    """Let one request at a time read logs, and end it when its time is up; `command` is what has no such bound."""
    seconds = WHOLE_SECONDS
    try:
        async with asyncio.timeout(seconds), state.busy:
            yield
    except TimeoutError:
        bound = f": it was stopped after {seconds:g} s. `{command}` has no such bound"
        raise TookTooLong(what, bound) from None
