"""The journal in memory keeps the room's promises, and what only it promises."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from contextlib import aclosing

import pytest

from keyturn.core.errors import UserError
from keyturn.journal import JOURNALS, open_journal
from keyturn.journal.base import Journal
from keyturn.journal.memory import MemoryJournal
from keyturn.testing.suites.journal_case import seen
from keyturn.testing.suites.journals import JournalSuite
from keyturn.testing.suites.outboxes import OutboxSuite
from keyturn.testing.suites.records import RecordsSuite
from tests.table import each
from tests.waiting import turns_of_the_loop


class TestMemoryJournal(JournalSuite, RecordsSuite, OutboxSuite):
    async def make_journal(self) -> MemoryJournal:
        return MemoryJournal(self.clock)

    async def another(self, journal: Journal) -> Journal:
        return self.of(journal, "default")


async def test_each_line_has_its_digest() -> None:
    journal = MemoryJournal()
    await journal.append("run", 0, [b"1", b"2"])
    await journal.append("run", 2, [b"3"])
    await journal.append("other", 0, [b"1"])
    hashes = await journal.hashes("run")
    assert [digest for digest, _ in hashes] == [hashlib.sha256(line).hexdigest() for line in (b"1", b"2", b"3")]
    assert await journal.hashes("other") == hashes[:1]
    hashes.clear()
    assert len(await journal.hashes("run")) == 3


async def test_the_real_clock_is_in_milliseconds() -> None:
    claim = await MemoryJournal().claim("run", "w", 60_000)
    assert 1_700_000_060_000 < claim.until < 10_000_000_000_000


async def test_views_of_a_store_have_one_clock_and_one_truth() -> None:
    journal = MemoryJournal(lambda: 5, tenant="ada")
    await journal.of("bob").append("run", 0, [b"bob's"])
    assert await journal.of("bob").of("ada").head("run") == 0
    assert await journal.of("ada").of("bob").read("run") == [b"bob's"]
    assert (await journal.of("bob").claim("run", "w", 10)).until == 15


async def test_a_watcher_is_known_only_while_it_waits() -> None:
    journal = MemoryJournal()
    await journal.append("run", 0, [b"0"])
    tasks = [asyncio.ensure_future(seen(journal, "run", 2)) for _ in range(3)]
    await turns_of_the_loop()
    assert len(journal._mine.waiting["run"]) == 3
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert journal._mine.waiting == {}
    watched = journal.watch("run")
    assert await anext(watched) == b"0"
    assert journal._mine.waiting == {}, "one that is not waiting leaves nothing to clean up"
    await watched.aclose()
    await seen(journal, "run", 1)
    assert journal._mine.waiting == {}


async def test_reading_what_is_not_there_keeps_nothing() -> None:
    journal = MemoryJournal()
    assert [await journal.head("x"), await journal.read("x"), await journal.hashes("x")] == [0, [], []]
    assert journal._mine.logs == {}


async def test_bytes_that_can_change_are_copied() -> None:
    journal, line = MemoryJournal(), bytearray(b"good")
    await journal.append("run", 0, [line])
    line[:] = b"evil"
    assert await journal.read("run") == [b"good"]


def test_it_survives_its_event_loop() -> None:
    journal = MemoryJournal()
    asyncio.run(journal.append("run", 0, [b"0"]))
    assert asyncio.run(seen(journal, "run", 1)) == [b"0"]

    loop = asyncio.new_event_loop()
    watched = journal.watch("run", 1)
    waiting = loop.create_task(anext(watched))
    loop.run_until_complete(turns_of_the_loop())
    loop.call_soon(waiting.cancel)
    stale = loop.create_future()
    journal._mine.waiting["run"].append(stale)
    loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
    loop.close()
    # A watcher whose loop was closed under it cannot be woken, and must not trouble who appends.
    assert journal._mine.waiting["run"] == [stale]
    asyncio.run(journal.append("run", 1, [b"1"]))
    assert journal._mine.waiting == {}


def test_a_watcher_in_another_thread_is_woken() -> None:
    journal, ready, lines = MemoryJournal(), threading.Event(), list[bytes]()

    async def watches() -> None:
        async with asyncio.timeout(20), aclosing(journal.watch("run")) as watched:
            asyncio.get_running_loop().call_soon(ready.set)
            async for line in watched:
                lines.append(line)
                if line == b"last":
                    return

    thread = threading.Thread(target=asyncio.run, args=(watches(),))
    thread.start()
    ready.wait()
    for head, line in enumerate([b"first", b"second", b"last"]):
        asyncio.run(journal.append("run", head, [line]))
    thread.join(timeout=20)
    assert lines == [b"first", b"second", b"last"]


def test_a_url_names_a_journal() -> None:
    assert isinstance(open_journal("memory://"), MemoryJournal)
    assert open_journal("memory://") is not open_journal("memory://")
    assert all(row.startswith("keyturn.journal.") for row in JOURNALS.values())


@each("url", ["mongodb://ada:hunter2@host/db", "", "memory", "memory:", "/tmp/hunter2", "memory://x"])
def test_a_url_that_names_none_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(UserError, match="memory://") as caught:
        open_journal(url)
    assert "hunter2" not in str(caught.value)
