"""What it means that a call of a server went wrong, in the words of the seam: refused, never sent, or unknown."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from .base import MCPServerError
from .calls import CallRefused, Lost, Unreached, Unsent
from .options import Settings

T = TypeVar("T")


class Unanswered(MCPServerError):
    """Raised for a call without an answer; `free` is how often it may be retried without configured attempts.

    >>> Unanswered("files", "its answer was lost", may_have_acted=True).may_have_acted
    True
    """

    def __init__(self, server: str, problem: str, *, may_have_acted: bool = False, free: int = 0) -> None:
        super().__init__(server, problem, may_have_acted=may_have_acted)
        self._free = free

    def attempts(self, settings: Settings) -> int:
        """Return how often it may be sent again."""
        return max(self._free, settings.max_retry_attempts)


async def worded(server: str, seconds: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Await what concerns a call, and raise what went wrong in the words of the seam."""
    try:
        return await work
    except CallRefused as problem:
        raise MCPServerError(server, str(problem)) from None
    except Unsent as problem:
        unreached = isinstance(problem, Unreached)
        raise Unanswered(server, f"nothing was sent: {problem}", free=0 if unreached else 1) from None
    except TimeoutError:
        raise Unanswered(server, f"it did not answer within {seconds:g} s", may_have_acted=True) from None
    except Lost as problem:
        raise Unanswered(server, f"its answer was lost: {problem}", may_have_acted=True) from None
