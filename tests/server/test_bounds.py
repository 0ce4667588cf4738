"""What reads many logs for a request is bounded, and says so; what is not installed is named."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from limits import RateLimitItemPerHour

import keyturn
from keyturn import App, MemoryJournal
from keyturn.audit.service import Audit
from keyturn.journal import memory_rows
from keyturn.journal.rows import Changes, Query, RequestRow, RunRow
from keyturn.server import reading_logs
from keyturn.server.api import routes
from keyturn.server.web import audit as web_audit
from tests.audit.test_search import store_of_decisions
from tests.server.programs import program
from tests.server.web.test_sight import bank


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_newest_first_finds_the_same_the_other_way_round_page_by_page(limit: int) -> None:
    store = MemoryJournal()
    await store_of_decisions(store)
    audit = Audit(store)
    keys = [entry.key for entry in await audit.search(limit=1_000)]
    runs = list(dict.fromkeys(key.split(".")[1] for key in keys))
    found = list[str]()
    after: str | None = None
    while True:
        page = await audit.search_page(newest=True, limit=limit, after=after)
        found += [entry.key for entry in page.entries]
        after = page.next
        if after is None:
            break
        assert len(page.entries) == limit
    assert sorted(found) == sorted(keys)
    assert found == [key for run in reversed(runs) for key in reversed(keys) if key.split(".")[1] == run]


@pytest.mark.parametrize("newest", [False, True])
async def test_a_search_whose_time_is_up_says_where_it_goes_on(newest: bool) -> None:
    store = MemoryJournal()
    await store_of_decisions(store)
    audit = Audit(store)
    whole = await audit.search(limit=1_000, newest=newest)
    found = list[str]()
    pages, after = 0, None
    while True:
        page = await audit.search_page(newest=newest, seconds=0, after=after)
        found += [entry.key for entry in page.entries]
        pages, after = pages + 1, page.next
        if after is None:
            break
        assert page.late
    assert found == [entry.key for entry in whole]
    assert pages > len(await store.runs(Query()))


async def test_the_api_and_the_page_say_that_time_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bank() as at:
        monkeypatch.setattr(web_audit, "SEARCH_SECONDS", 0.0)
        for address, further in (
            ("/audit", "Choose a shorter period or a run to see all decisions."),
            ("/audit?view=lines", ">Continue the search"),
        ):
            page = (await at.as_("ada").see(address)).text
            assert "The search stopped before everything was read" in page, address
            assert further in page, address


async def test_verifying_and_exporting_end_when_their_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def for_ever(*_given: Any, **_more: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(reading_logs, "WHOLE_SECONDS", 0.05)
    monkeypatch.setattr(Audit, "verify", for_ever)
    monkeypatch.setattr(Audit, "export", for_ever)
    async with program() as at:
        for made in (
            await at.ask("GET", "/audit/verify"),
            await at.ask("POST", "/audit/export", json={"format": "csv"}),
        ):
            assert made.status_code == 503
            assert "`keyturn audit" in made.json()["error"]["message"]
        assert (await at.ask("GET", "/audit?newest=true")).json()["late"] is False
    async with bank() as at:
        ada = at.as_("ada")
        mark = (await ada.fields("/audit"))["csrf_token"]
        for path, form in (("/audit/verify", {}), ("/audit/export", {"format": "csv"})):
            made = await ada.send(path, {"csrf_token": mark, **form})
            assert made.status_code == 503
            assert "has no such bound" in made.text


async def test_searches_hold_up_no_administrator_and_nobody_queues_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    going, asked = asyncio.Event(), asyncio.Event()
    search = Audit.search_page

    async def slow(self: Audit, **given: Any) -> Any:
        asked.set()
        await going.wait()
        return await search(self, **given)

    monkeypatch.setattr(Audit, "search_page", slow)
    monkeypatch.setattr(reading_logs, "WHOLE_SECONDS", 5.0)
    async with program() as at:
        bens = asyncio.create_task(at.ask("GET", "/audit", "ben"))
        await asked.wait()
        second = await at.ask("GET", "/audit?text=x", "ben")
        assert (second.status_code, second.json()["error"]["kind"]) == (429, "too_many")
        assert (await at.ask("GET", "/audit/verify", "ada")).status_code == 200, "it stands in no line behind searches"
        assert (await at.ask("POST", "/audit/export", "ada", json={"format": "csv"})).status_code == 200
        monkeypatch.setattr(reading_logs, "WAITING_SECONDS", 0.01)
        waited = await at.ask("GET", "/audit", "cyd")
        assert waited.status_code == 503
        assert "waiting for others" in waited.json()["error"]["message"]
        going.set()
        assert (await bens).status_code == 200
        assert (await at.ask("GET", "/audit", "ben")).status_code == 200


async def test_what_a_person_notes_beside_requests_has_an_end_and_deciding_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each note is a line of a run's log, and claiming and letting go could be repeated for ever."""
    monkeypatch.setattr(routes, "MARKS", RateLimitItemPerHour(1, namespace="person"))
    async with program() as at:
        row = await at.waiting()
        for number, word in enumerate(("look", "take", "let_go", "snooze", "wake")):
            body = {"digest": row["digest"]} | ({"lasts": "1h"} if word == "snooze" else {})
            assert (await at.ask("POST", f"/requests/{row['id']}/{word}", json=body)).status_code == (
                429 if number else 200
            )
        done = await at.ask("POST", f"/requests/{row['id']}/approve", json={"digest": row["digest"]})
        assert done.status_code == 200


async def test_the_time_of_a_reading_begins_when_its_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting is free: a bound that had passed long before the turn came ends nothing."""
    monkeypatch.setattr(reading_logs, "WHOLE_SECONDS", 0.05)
    state: Any = SimpleNamespace(readers=reading_logs.LogReaders())
    visitor: Any = SimpleNamespace(id="ben", roles=frozenset[str]())

    async def waits() -> str:
        async with reading_logs.reading_logs(state, visitor, "it", "keyturn"):
            return "read"

    async with state.readers.search("cyd"):
        reading = asyncio.create_task(waits())
        await asyncio.wait({reading}, timeout=0.2)
        assert not reading.done()
    assert await reading == "read"


async def test_a_bystanders_list_of_runs_reads_the_requests_of_each_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = list[int]()
    page_of = memory_rows._page

    def counted(rows: Any, query: Query, place: Any) -> Any:
        there = list(rows)
        looked_at.append(len(there) if query.run is not None else 0)
        return page_of(iter(there), query, place)

    async with bank(own=True) as at:
        for number in range(300):
            run = f"{number:032x}"
            asked = RequestRow(
                f"{number + 1:032x}", run, "r/0.0", "approval", "pay", "desk", "0" * 64, number, body="{}"
            )
            row = RunRow(run, "desk", "finished", number, number, 1)
            await at.app.journal.append(run, 0, [b"{}"], None, Changes(row, opened=[asked]))
        monkeypatch.setattr(memory_rows, "_page", counted)
        assert (await at.as_("eve").see("/runs")).status_code == 200
        assert max(looked_at) == 1
        assert sum(looked_at) <= 2 * 301


def test_a_server_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyturn, "server", getattr(keyturn, "server", None), raising=False)  # it is imported anew
    for name in [name for name in sys.modules if name.startswith(("keyturn.server", "fastapi"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(ImportError, match=r"pip install 'keyturn\[server\]'"):
        App([], "memory://").asgi()
