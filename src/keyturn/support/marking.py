"""Mark values that may be secret by a keyed MAC: equal ones are recognized, and short ones are not found by trial.

A mark that was made with an older key is recognized as well: what is compared is made under each key of the ring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from .keys import ring

Made = TypeVar("Made")
_key: ContextVar[str | None] = ContextVar("keyturn marking key", default=None)


def mark(purpose: str, text: str) -> str:
    """Return the mark of a text, with the newest key or the one of `under_older_keys`.

    >>> mark("environment", "PIN=1234") == mark("environment", "PIN=1234")
    True
    """
    return ring().mac(purpose, text.encode(), key=_key.get())


def under_older_keys(make: Callable[[], Made]) -> Iterator[Made]:
    """Yield what a function makes with the marks of each key but the newest.

    >>> list(under_older_keys(lambda: mark("environment", "PIN=1234")))
    []
    """
    for name in ring().ids[1:]:
        before = _key.set(name)
        try:
            made = make()
        finally:
            _key.reset(before)
        yield made
