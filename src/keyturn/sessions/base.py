"""The seam to a session: a store that keeps a conversation between runs.

Here live the protocol, its abstract twin and the settings they share. No storage, no I/O and no
knowledge of what the items mean: a session keeps plain dicts in the Responses input format, in the
order they were added, and gives them back unchanged.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, cast, runtime_checkable

from ..core.errors import UserError
from ..core.immutable import immutable
from ..core.items import Item
from ..core.settable import Rules, made_by


@immutable
@dataclass(frozen=True)
class SessionSettings:
    """Says how a session is read where the reader does not say.

    >>> SessionSettings(limit=20).window(None), SessionSettings(limit=20).window(5)
    (20, 5)
    """

    limit: int | None = None

    def __post_init__(self) -> None:
        self.window(None)

    def window(self, limit: int | None) -> int | None:
        """Return how many of the newest items a read may give; None is all of them."""
        wanted: Any = self.limit if limit is None else limit
        if wanted is not None and (not isinstance(wanted, int) or isinstance(wanted, bool)):
            raise UserError(f"a session's limit is a whole number of items, or None for all, not {wanted!r}")
        # Stores disagree about negative numbers (SQLite reads -1 as "all", a slice cuts from the other end),
        # and a history of the wrong length is a mistake that nobody sees.
        if wanted is not None and wanted < 0:
            raise UserError(f"a session was asked for its last {wanted} items: give 0 or more, or None for all")
        return wanted


def _settings(value: Any) -> SessionSettings:
    if value is not None and not isinstance(value, SessionSettings):
        raise UserError(f"session_settings must be SessionSettings or None, not {type(value).__name__}")
    return value or SessionSettings()


#: The rules of a session's attributes: settings that are set apply to the next read.
SESSION_RULES: Rules = {"session_settings": made_by(_settings)}


@runtime_checkable
class Session(Protocol):
    """Stores a conversation; any class of yours with these methods will do.

    A session whose methods all declare a parameter `wrapper` is given the `RunContextWrapper` of the run, so that one
    object can keep a conversation for each of your users. A `session_settings` of yours holds where a run has none.

    >>> class Forgetful:
    ...     session_id = "nobody"
    ...     async def get_items(self, limit=None): return []
    ...     async def add_items(self, items): pass
    ...     async def pop_item(self): return None
    ...     async def clear_session(self): pass
    >>> isinstance(Forgetful(), Session)
    True
    """

    session_id: str

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the newest `limit` items, or all of them, oldest first."""
        ...

    async def add_items(self, items: list[Item]) -> None:
        """Append the batch: all of it, or, if this raises, nothing."""
        ...

    async def pop_item(self) -> Item | None:
        """Remove the newest item and return it; None if there is none."""
        ...

    async def clear_session(self) -> None:
        """Delete every item of this session, and of no other."""
        ...


class SessionABC(ABC):
    """Stores a conversation, like `Session`, but to inherit from: a missing method fails when the object is made.

    >>> class Half(SessionABC):
    ...     async def pop_item(self): return None
    >>> sorted(Half.__abstractmethods__)
    ['add_items', 'clear_session', 'get_items']
    """

    session_id: str

    @abstractmethod
    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the newest `limit` items, or all of them, oldest first."""

    @abstractmethod
    async def add_items(self, items: list[Item]) -> None:
        """Append the batch: all of it, or, if this raises, nothing."""

    @abstractmethod
    async def pop_item(self) -> Item | None:
        """Remove the newest item and return it; None if there is none."""

    @abstractmethod
    async def clear_session(self) -> None:
        """Delete every item of this session, and of no other."""


def called(method: Callable[..., Awaitable[Any]], wrapper: Any, **given: Any) -> Awaitable[Any]:
    """Call a session's method with what it declares: arguments by their names, and the run's context as `wrapper`.

    >>> async def add_items(items, wrapper): return wrapper, items
    >>> import asyncio
    >>> asyncio.run(called(add_items, "the context", items=[]))
    ('the context', [])
    """
    function = getattr(method, "__func__", method)
    declared = _parameters(function)
    by_name = {name: value for name, value in given.items() if name in declared}
    unnamed = [value for name, value in given.items() if name not in declared]
    if "wrapper" in declared and _knows_wrapper(cast("type", type(getattr(method, "__self__", None))), function):
        by_name["wrapper"] = wrapper
    return method(*unnamed, **by_name)


@lru_cache(maxsize=256)
def _knows_wrapper(session: type, function: Callable[..., Any]) -> bool:
    """Return whether a session takes the context in all its methods: with some of them it could not keep users apart.

    A parameter of that name that has no default in one method alone is given all the same, since the call needs it.
    """
    return _has_wrapper(session) or inspect.signature(function).parameters["wrapper"].default is inspect.Parameter.empty


def keeps_users_apart(session: Any) -> bool:
    """Return whether one session object keeps a conversation for each user: all its methods take the run's context.

    >>> keeps_users_apart(object())
    False
    """
    return isinstance(session, Session) and _has_wrapper(cast("type", type(session)))


def _has_wrapper(session: type) -> bool:
    methods = [getattr(session, name, None) for name in ("get_items", "add_items", "pop_item", "clear_session")]
    return all(method is None or "wrapper" in _parameters(method) for method in methods)


@lru_cache(maxsize=256)
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names by which a function takes arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # what is not written in Python says nothing
        return frozenset()
    return frozenset(each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))
