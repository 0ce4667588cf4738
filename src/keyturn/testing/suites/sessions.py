"""The shared suite of the sessions room: what every session promises, whoever wrote it.

Subclass `SessionSuite`, say how a session is made, and pytest runs the rest; the async tests want
pytest-asyncio. What only one store can promise (a file that outlives the process, table names) is
tested beside that store.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, ClassVar

import pytest

from ...core.items import Item
from ...sessions.base import Session

ODD_TEXTS = (
    "",
    " \t\r\n ",
    "nul \x00, bell \x07, delete \x7f",
    "\u2028 line, \u2029 paragraph, \ufeff byte order mark, \uffff no character",
    "e\u0301 is not \u00e9",
    "\u202eright to left\u202c שלום مرحبا",
    "\U0001f469\u200d\U0001f467 a family, \U0001d518 outside the basic plane, 中文",
    "'; DROP TABLE agent_messages; --",
    '{"role": "user"}',
    "\\ud800 \\n \\",
)


def _said(text: str) -> Item:
    return {"role": "user", "content": text}


class SessionSuite:
    """Tests a session: subclass it in a test module, name the class `Test...`, and implement `make_session`.

    >>> from keyturn.sessions.memory import MemorySession
    >>> class TestMemorySession(SessionSuite):
    ...     def make_session(self, session_id):
    ...         return MemorySession(session_id)
    >>> hasattr(TestMemorySession, "test_a_new_session_is_empty")
    True
    """

    pytestmark = pytest.mark.asyncio

    #: Two sessions made with the same id are one conversation (as in a file), not two (as in memory).
    shared: ClassVar[bool] = False

    def make_session(self, session_id: str) -> Session:
        """Make a session that is empty the first time a test asks for this id.

        It is called several times per test.
        """
        raise NotImplementedError("say how a session is made")

    @pytest.fixture(autouse=True)
    def close_sessions(self) -> Iterator[None]:
        """Close what a test opened; a store whose `close` is async overrides this fixture."""
        self.opened: list[Session] = []
        yield
        for session in self.opened:
            close = getattr(session, "close", None)
            if close is not None and not inspect.iscoroutinefunction(close):
                close()

    def open(self, session_id: str = "ada") -> Session:
        """Call `make_session`, and close the result afterwards."""
        session = self.make_session(session_id)
        self.opened.append(session)
        return session

    async def test_it_is_a_session(self) -> None:
        session = self.open("ada")
        assert isinstance(session, Session)
        assert session.session_id == "ada"

    async def test_a_new_session_is_empty(self) -> None:
        session = self.open()
        assert await session.get_items() == []
        assert await session.get_items(limit=5) == []
        assert await session.pop_item() is None
        await session.clear_session()
        assert await session.get_items() == []

    async def test_an_empty_batch_adds_nothing(self) -> None:
        session = self.open()
        await session.add_items([])
        assert await session.get_items() == []

    async def test_items_come_back_in_the_order_they_were_added(self) -> None:
        session = self.open()
        await session.add_items([_said("1"), _said("2")])
        await session.add_items([_said("3")])
        await session.add_items([_said("1")])
        assert await session.get_items() == [_said("1"), _said("2"), _said("3"), _said("1")]

    async def test_a_limit_gives_the_newest_items_oldest_first(self) -> None:
        session = self.open()
        items = [_said(str(number)) for number in range(5)]
        await session.add_items(items)
        assert await session.get_items(limit=2) == items[-2:]
        assert await session.get_items(2) == items[-2:]
        assert await session.get_items(limit=0) == []
        assert await session.get_items(limit=5) == items
        assert await session.get_items(limit=99) == items
        assert await session.get_items(limit=None) == items

    async def test_pop_takes_the_newest_item(self) -> None:
        session = self.open()
        await session.add_items([_said("1"), _said("2"), _said("3")])
        assert await session.pop_item() == _said("3")
        await session.add_items([_said("4")])
        assert await session.get_items() == [_said("1"), _said("2"), _said("4")]
        assert [await session.pop_item() for _ in range(4)] == [_said("4"), _said("2"), _said("1"), None]

    async def test_a_cleared_session_can_be_used_again(self) -> None:
        session = self.open()
        await session.add_items([_said("1"), _said("2")])
        await session.clear_session()
        assert await session.get_items() == []
        await session.add_items([_said("3")])
        assert await session.get_items() == [_said("3")]

    async def test_sessions_do_not_see_each_other(self) -> None:
        ada, bob = self.open("ada"), self.open("bob")
        await ada.add_items([_said("a1"), _said("a2")])
        await bob.add_items([_said("b1")])
        assert await ada.pop_item() == _said("a2")
        assert await bob.get_items() == [_said("b1")]
        await ada.clear_session()
        assert await ada.get_items() == []
        assert await bob.get_items() == [_said("b1")]

    async def test_ids_that_look_alike_are_different_sessions(self) -> None:
        ids = ("ada", "Ada", "ada ", "a%", "a_a", "../ada", "o'brien\"; --", "東京/京都", "é", "e\u0301")
        for session_id in ids:
            await self.open(session_id).add_items([_said(session_id)])
        if self.shared:
            assert [await self.open(session_id).get_items() for session_id in ids] == [[_said(i)] for i in ids]

    async def test_editing_a_dict_does_not_edit_the_past(self) -> None:
        session = self.open()
        item: Item = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}
        batch, original = [item], deepcopy(item)
        await session.add_items(batch)
        item["content"][0]["text"] = "goodbye"
        batch.append(_said("never added"))
        assert await session.get_items() == [original]
        read = await session.get_items()
        read[0]["content"].clear()
        read.clear()
        assert await session.get_items() == [original]

    async def test_odd_text_comes_back_as_it_was(self) -> None:
        session = self.open()
        items: list[Item] = [{"role": "user", "content": text, text: text} for text in ODD_TEXTS]
        await session.add_items(items)
        assert await session.get_items() == items

    async def test_values_keep_their_types(self) -> None:
        session = self.open()
        values: list[Any] = [None, True, False, 0, 1, -1, 2**53 - 1, 0.1, 1e300, "1", "", [], {}, [[{"a": [None]}]]]
        await session.add_items([{"type": "odd", "values": values}])
        [item] = await session.get_items()
        assert item == {"type": "odd", "values": values}
        assert [type(value) for value in item["values"]] == [type(value) for value in values]

    async def test_a_big_item_is_kept_whole(self) -> None:
        session = self.open()
        big = _said("0123456789é\n" * 250_000)
        await session.add_items([big, _said("after")])
        assert await session.get_items() == [big, _said("after")]

    async def test_batches_added_at_once_stay_whole(self) -> None:
        session = self.open()
        doors = [self.open() for _ in range(4)] if self.shared else [session]
        batches = [[_said(f"{number}.{part}") for part in range(5)] for number in range(16)]
        await asyncio.gather(*(doors[n % len(doors)].add_items(batch) for n, batch in enumerate(batches)))
        items = await session.get_items()
        kept = [items[start : start + 5] for start in range(0, len(items), 5)]
        assert sorted(kept, key=str) == sorted(batches, key=str)

    async def test_a_batch_that_cannot_be_stored_leaves_nothing(self) -> None:
        session = self.open()
        await session.add_items([_said("before")])
        # A lock can neither be written as JSON nor be copied, so no store can take it.
        with pytest.raises(Exception, match=r"\S"):
            await session.add_items([_said("good"), {"role": "user", "content": threading.Lock()}, _said("good")])
        assert await session.get_items() == [_said("before")]
        await session.add_items([_said("after")])
        assert await session.get_items() == [_said("before"), _said("after")]

    async def test_a_second_session_of_the_same_id(self) -> None:
        first, second = self.open("ada"), self.open("ada")
        await first.add_items([_said("1")])
        await second.add_items([_said("2")])
        seen = [_said("1"), _said("2")] if self.shared else [_said("2")]
        assert await second.get_items() == seen
        assert await first.get_items() == (seen if self.shared else [_said("1")])
