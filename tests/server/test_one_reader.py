"""What one reader asks for is bounded: memory, the time of the event loop, and what is left on the disk."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import pytest
from argon2 import PasswordHasher
from starlette.responses import Response

from keyturn import MemoryJournal, NotAllowed
from keyturn.core.errors import StorageError
from keyturn.core.strict import parse
from keyturn.journal.rows import Query
from keyturn.server import streams
from keyturn.server.api import bodies, once
from keyturn.server.api.once import Answers
from keyturn.server.identity.passwords import Passwords
from keyturn.server.limits import BY_LOGIN, BY_PERSON, Limits, TooMany
from keyturn.server.live import Live
from keyturn.server.places import StreamPlaces
from keyturn.server.streams import EventStream
from keyturn.server.turns import ServedTurns, TooManyAtOnce
from keyturn.server.visible_pages import PAGE_SIZE, visible_page
from tests.server.programs import program
from tests.waiting import turns_of_the_loop, until


class Sized(NamedTuple):
    """Stands for a row of a place and a size."""

    place: int
    size: int


async def pages_of(rows: list[Sized], limit: int) -> tuple[list[list[Sized]], int]:
    """Return all pages of rows, and the most that was read for one of them."""
    most = read_now = 0

    async def read(query: Query) -> list[Sized]:
        nonlocal read_now
        at = 0 if query.after is None else query.after[0] + 1
        read_now += sum(row.size for row in rows[at : at + query.limit])
        return rows[at : at + query.limit]

    async def seen(page: Any) -> Any:
        return page

    pages: list[list[Sized]] = []
    after: tuple[int, str] | None = None
    while True:
        read_now = 0
        query = Query(limit=limit, after=after)
        page, after = await visible_page(query, read, seen, lambda row: (row.place, ""), lambda row: row.size)
        pages.append(page)
        most = max(most, read_now)
        if after is None:
            return pages, most


@pytest.mark.parametrize("size", [10, 5_000, PAGE_SIZE // 3, PAGE_SIZE * 2])
async def test_a_page_has_a_bounded_size_and_pages_neither_skip_nor_repeat(size: int) -> None:
    rows = [Sized(place, size) for place in range(700)]
    pages, most = await pages_of(rows, 500)
    assert [row for page in pages for row in page] == rows
    assert most <= PAGE_SIZE + 16 * size
    assert max(map(len, pages)) <= 500
    assert max(sum(row.size for row in page) for page in pages) < PAGE_SIZE + size


async def test_what_streams_looked_up_is_not_kept_for_those_that_have_gone() -> None:
    live = Live(MemoryJournal())
    async with contextlib.aclosing(live.changes(60)) as changes:
        await anext(changes)

        async def look() -> bytes:
            return b"x"

        for number in range(500):
            await live.once(("requests", number), look)
        kept = cast("dict[Any, Any]", live._looked)  # pyright: ignore[reportPrivateUsage]  # what is kept is the promise
        assert len(kept) <= 20
    assert not kept


async def test_who_waits_for_one_run_is_told_of_that_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal()
    live = Live(journal)
    await journal.append("mine", 0, [b"one"])
    async with contextlib.aclosing(live.changes(60, "mine")) as changes:
        assert await anext(changes)
        told = asyncio.ensure_future(anext(changes))
        for number in range(20):
            await journal.append(f"other {number}", 0, [b"one"])
        await turns_of_the_loop(50)
        assert not told.done()
        await journal.append("mine", 1, [b"two"])
        assert await told
        ended = asyncio.ensure_future(anext(changes, None))
        await turns_of_the_loop(5)
        live.end()
        assert await ended is None

    async def away(run: str) -> int:
        raise StorageError(f"{run} cannot be read")

    monkeypatch.setattr(journal, "head", away)
    with pytest.raises(StorageError):
        await anext(live.changes(60, "mine"))
    assert live.listeners == 0


async def test_few_requests_of_one_person_are_served_at_the_same_time_and_others_do_not_wait() -> None:
    turns = ServedTurns(at_once=2, waiting=3)
    held = [await turns.take("eve") for _ in range(2)]
    waiting = [asyncio.ensure_future(turns.take("eve")) for _ in range(3)]
    await turns_of_the_loop(3)
    with pytest.raises(TooManyAtOnce):
        await turns.take("eve")
    assert not (await turns.take("ada")).waited
    held[0].leave()
    held[0].leave()
    first = await waiting[0]
    assert first.waited
    assert not waiting[1].done()
    waiting[1].cancel()
    held[1].leave()
    first.leave()
    (await waiting[2]).leave()
    assert turns.under_way == 1  # ada, whose turn was not left


async def test_a_stolen_login_keeps_the_other_logins_of_its_person_waiting_for_none_of_its_requests() -> None:
    turns, limits = ServedTurns(), Limits()
    slow = [await turns.serve("stolen", "session eve") for _ in range(3)]
    more = asyncio.ensure_future(turns.serve("stolen", "session eve"))
    own = await turns.serve("own", "session eve")
    assert (own.waited, more.done()) == (False, False)
    own.leave()
    for turn in slow:
        turn.leave()
    (await more).leave()
    assert turns.under_way == 0
    for _ in range(BY_LOGIN.amount):
        limits.spend(BY_LOGIN, "stolen")
        limits.spend(BY_PERSON, "eve", "session")
    with pytest.raises(TooMany):
        limits.spend(BY_LOGIN, "stolen")
    limits.spend(BY_LOGIN, "own")
    limits.spend(BY_PERSON, "eve", "session")


async def test_an_export_that_names_a_key_is_answered_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with program() as at:
        await at.waiting()
        for _ in range(2):
            made = await at.ask("POST", "/audit/export", json={"format": "csv"}, headers={"idempotency-key": "k"})
            assert made.status_code == 200, made.text
            assert made.text.startswith("run,line,at")
    assert not [*tmp_path.glob("keyturn-export-*")]


async def test_what_is_remembered_for_one_is_not_pushed_out_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "_MOST_EACH", 3)
    answers, done = Answers(), list[str]()

    async def ask(whose: str, key: str) -> None:
        async def doing() -> Any:
            done.append(f"{whose} {key}")
            return Response(b"{}")

        await answers.once(whose, key, b"", doing)

    await ask("ada", "1")
    for number in range(10):
        await ask(f"eve token{number % 5}", str(number))
    await ask("ada", "1")
    await ask("eve token4", "9")
    await ask("eve token0", "0")
    assert done.count("ada 1") == 1
    assert done.count("eve token4 9") == 1
    assert done.count("eve token0 0") == 2, "several tokens of a person have one share"


async def test_the_answers_that_are_remembered_have_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "_MOST_BYTES_EACH", 3_000)
    monkeypatch.setattr(once, "_MOST_BYTES", 5_000)
    answers, done = Answers(), list[str]()

    async def ask(whose: str, key: str) -> None:
        async def doing() -> Any:
            done.append(f"{whose} {key}")
            return Response(bytes(1_000))

        await answers.once(whose, key, b"", doing)

    for key in "1234":
        await ask("eve", key)
    await ask("eve", "4")
    await ask("eve", "2")
    assert done == ["eve 1", "eve 2", "eve 3", "eve 4"], "the last ones are remembered"
    await ask("eve", "1")
    assert done[-1] == "eve 1", "the oldest was forgotten"
    for whose in ("ada", "ben", "cyd", "dan"):
        await ask(whose, "1")
    await ask("dan", "1")
    await ask("eve", "3")
    assert done[5:] == ["ada 1", "ben 1", "cyd 1", "dan 1", "eve 3"], "one size for all of them"


async def test_a_body_is_as_short_as_its_route_needs_and_a_long_one_is_parsed_outside_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_loop = list[int]()

    def parsed(raw: bytes, *given: Any) -> Any:
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            on_loop.append(len(raw))
        return parse(raw, *given)

    monkeypatch.setattr(bodies, "parse", parsed)
    async with program() as at:
        long = "x" * 200_000
        assert (await at.ask("POST", "/policies/replay", json={"policy": long})).status_code == 413
        assert (await at.ask("POST", "/runs", json={"agent": "desk", "input": long}, who="bot")).status_code == 200
    assert max(on_loop, default=0) <= bodies.LARGE


@pytest.mark.parametrize("key", ["9" * 30 + ".run.0.0", "5.run." + "9" * 30 + ".0", "-" + "9" * 30 + ".run.0.0"])
async def test_a_forged_place_of_the_audit_is_refused_before_a_store_is_asked(key: str) -> None:
    async with program() as at:
        assert (await at.ask("GET", f"/audit?after={key}")).status_code == 422


async def test_a_stream_sends_nothing_more_to_a_reader_who_may_not_read_it_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "_AT_ONCE", 0)
    allowed, first = True, asyncio.Event()
    got = list[bytes]()

    async def events() -> AsyncGenerator[bytes]:
        yield b"first"
        await first.wait()
        yield b"second"

    async def still() -> None:
        if not allowed:
            raise NotAllowed("you may not read this any more")

    async def send(message: Any) -> None:
        nonlocal allowed
        got.append(message.get("body", b""))
        if got[-1] == b"first":
            allowed = False
            first.set()

    async def receive() -> Any:
        await asyncio.Event().wait()

    stream = EventStream(events(), ended=asyncio.Event(), places=StreamPlaces(), person="eve", still=still)
    await stream({}, receive, send)
    assert b"first" in got
    assert b"second" not in got


async def test_a_known_browser_waits_for_no_stranger() -> None:
    release, at_work = threading.Event(), list[str]()

    class Slow(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
            at_work.append(str(password))
            if password == "stranger":
                release.wait(30)
            return True

    passwords = Passwords(Slow())
    await passwords.fits("hash", "first", known=True)
    strangers = [asyncio.ensure_future(passwords.fits("hash", "stranger")) for _ in range(20)]
    await until(lambda: "stranger" in at_work)
    assert await passwords.fits("hash", "known", known=True)
    assert at_work.count("stranger") == 1
    release.set()
    await asyncio.gather(*strangers)
