"""The session in memory keeps the room's promises, and what only it promises."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.core.errors import UserError
from keyturn.sessions.base import SessionABC, SessionSettings
from keyturn.sessions.memory import MemorySession
from keyturn.testing.suites.sessions import SessionSuite


class TestMemorySession(SessionSuite):
    def make_session(self, session_id: str) -> MemorySession:
        return MemorySession(session_id)


async def test_settings_say_how_much_is_read_unless_the_reader_does() -> None:
    session = MemorySession("ada", SessionSettings(limit=2))
    await session.add_items([{"n": 1}, {"n": 2}, {"n": 3}])
    assert await session.get_items() == [{"n": 2}, {"n": 3}]
    assert await session.get_items(3) == [{"n": 1}, {"n": 2}, {"n": 3}]


async def test_items_of_one_batch_do_not_share_their_parts() -> None:
    session, part = MemorySession("ada"), {"text": "hello"}
    await session.add_items([{"content": part}, {"content": part}])
    items = await session.get_items()
    items[0]["content"]["text"] = "goodbye"
    assert items[1] == {"content": {"text": "hello"}}


@pytest.mark.parametrize("limit", [-1, -99])
async def test_a_negative_limit_is_refused(limit: int) -> None:
    with pytest.raises(UserError, match="0 or more"):
        await MemorySession("ada").get_items(limit)
    with pytest.raises(UserError, match="0 or more"):
        SessionSettings(limit=limit)


def test_a_half_made_session_cannot_be_constructed() -> None:
    class Half(SessionABC):
        async def pop_item(self) -> dict[str, Any] | None:
            return None

    with pytest.raises(TypeError, match="add_items"):
        Half()  # pyright: ignore[reportAbstractUsage]  # that it cannot be made is the test
