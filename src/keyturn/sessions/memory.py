"""A session in this process's memory: for tests, scripts and the first five minutes.

It owns its items: what comes in and what goes out is copied, so that a caller who edits a dict
afterwards cannot edit the past. Nothing here outlives the object.
"""

from __future__ import annotations

from copy import deepcopy

from ..core.errors import UserError
from ..core.items import Item
from ..core.settable import Sealed
from .base import SESSION_RULES, SessionABC, SessionSettings


class MemorySession(SessionABC, Sealed):
    """Stores a conversation for as long as the object lives.

    >>> import asyncio
    >>> session = MemorySession("ada")
    >>> asyncio.run(session.add_items([{"role": "user", "content": "hello"}]))
    >>> asyncio.run(session.get_items())
    [{'role': 'user', 'content': 'hello'}]
    """

    _rules = SESSION_RULES

    def __init__(self, session_id: str, session_settings: SessionSettings | None = None) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._items: list[Item] = []

    async def get_items(self, limit: int | None = None) -> list[Item]:
        wanted = self.session_settings.window(limit)
        first = 0 if wanted is None else max(0, len(self._items) - wanted)
        return [deepcopy(item) for item in self._items[first:]]

    async def add_items(self, items: list[Item]) -> None:
        # Each item is copied by itself, and all before the first is kept: two items that share a dict in the
        # caller's hands do not share it here, and a batch that cannot be copied leaves nothing behind.
        try:
            copies = [deepcopy(item) for item in items]
        except TypeError as error:
            raise UserError(f"session items must be plain JSON values, nothing was added: {error}") from error
        self._items.extend(copies)

    async def pop_item(self) -> Item | None:
        return self._items.pop() if self._items else None

    async def clear_session(self) -> None:
        self._items.clear()
