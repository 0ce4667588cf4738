"""The column of shapes: by its index alike is a page, and rows of before it are valid and found as they were."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn import App, Inbox
from keyturn.audit.checker import check
from keyturn.journal import open_journal, sql
from keyturn.journal.rows import Changes, Query, RequestRow, RunRow
from keyturn.journal.selecting import select

from .older import WITHOUT_SHAPES, altered, as_it_was, rewrite
from .restoring import Payer, Place

OLD = 7


async def made_older(place: Place) -> None:
    """Leave a store as an earlier version did."""
    store: Any = open_journal(place.url)
    await rewrite(store)
    await store.close()
    altered(place.url, *WITHOUT_SHAPES, version=OLD)


async def test_an_older_store_is_migrated_its_rows_are_valid_found_and_decided(place: Place) -> None:
    payer = Payer()
    async with App([payer.agent], place.url) as app:
        runs = [await app.start("payer", "go") for _ in range(3)]
        for run in runs:
            await run.wait()
        shape = (await app.inbox.list())[0].shape
        assert shape
        first: Any = app.journal
    await first.close()  # after the app, which releases what it holds
    await made_older(place)
    async with App([payer.agent], place.url) as app:
        store: Any = app.journal
        newer = await app.start("payer", "go")
        await newer.wait()
        rows = await store.requests()
        assert [row.state for row in rows] == ["open"] * 4, "none is damaged"
        assert {row.shape for row in rows} == {row.request.shape for row in rows} == {shape}
        assert [row.id for row in await store.requests(Query(shape=shape))] == [rows[3].id]
        assert [row.id for row in await app.inbox.alike(rows[0])] == [row.id for row in rows]
        assert (await check(store)).ok
        done = await app.inbox.approve_all(rows, by="ada")
        assert [each.error for each in done] == [None] * 4
        for run in (*runs, newer):
            await app.wait(run.id)
        assert payer.paid == ["ada"] * 4
        assert [row.state for row in await store.requests()] == ["approve"] * 4
        report = await check(store)
        assert report.ok, str(report)


@pytest.mark.parametrize(
    ("shape", "damaged"),
    [
        ("''", {0, 1}),
        ("'another'", {0, 1, 2}),
        ("CASE shape WHEN 'shape 0' THEN 'shape 1' WHEN 'shape 1' THEN 'shape 0' ELSE shape END", {0, 1}),
        ("CASE shape WHEN '' THEN 'shape 2' ELSE shape END", {2}),
    ],
)
async def test_a_shape_that_was_altered_taken_away_or_put_there_is_a_damaged_row(
    place: Place, shape: str, damaged: set[int]
) -> None:
    """The last of the three is as an earlier version wrote it, without a shape in its column."""
    store: Any = open_journal(place.url)
    rows = [row_of(number, f"shape {number}") for number in range(2)]
    rows.append(as_it_was(row_of(2, "shape 2")))
    await store.append("run", 0, [b"{}"], None, Changes(RunRow("run", "desk", "waiting", 0, 0, 3), opened=rows))
    assert [row.shape for row in await store.requests()] == ["shape 0", "shape 1", "shape 2"]
    await store.close()
    altered(place.url, f"UPDATE requests SET shape = {shape}")
    store = open_journal(place.url)
    found = await store.requests()
    assert {at for at, row in enumerate(found) if (row.state, row.shape) == ("damaged", "")} == damaged
    whole = {at for at, row in enumerate(found) if (row.state, row.shape) == ("open", f"shape {at}")}
    assert whole == {0, 1, 2} - damaged
    await store.close()


def row_of(number: int, shape: str, **named: Any) -> RequestRow:
    told = {"kind": "approval", "tool": "pay", "agent": "desk"} | named
    return RequestRow(
        f"q{number:05}", "run", f"r/{number}.0", digest="d" * 64, asked_at=number, shape=shape, body="{}", **told
    )


#: By the index of PostgreSQL; in a file, that of all open requests has what they are filtered by.
PLANS: dict[str, Query] = {
    "requests_open_shape": Query(state="open", shape="shape 7", limit=5),
    "requests_open_unshaped": Query(state="open", shape="", tool="tool 3", kind="approval", limit=5),
    "requests_open_tool": Query(state="open", tool="tool 7", agent="desk", after=(900, ""), limit=5),
    "requests_open_agent": Query(state="open", agent="desk 9", kind="approval", limit=5),
    "requests_open": Query(state="open", after=(900, ""), newest=True, limit=5),
}
FILTERED = {"requests_open_tool", "requests_open_agent"}


async def test_a_page_of_open_requests_goes_by_an_index_of_open_requests(place: Place) -> None:
    store: Any = open_journal(place.url)
    numbered = [(number, f"shape {number % 500}" if number % 500 != 3 else "") for number in range(2_000)]
    rows = [row_of(at, shape, tool=f"tool {at % 100}", agent=f"desk {at % 90}") for at, shape in numbered]
    rows += [replace(row_of(at, "shape 7"), state="approve") for at in range(2_000, 6_000)]
    await store.append("run", 0, [b"{}"], None, Changes(RunRow("run", "desk", "waiting", 0, 0, 9), opened=rows))
    lite = place.url.startswith("sqlite")
    if not lite:
        await store.write(lambda db: db.execute("ANALYZE requests"))
    for index, query in PLANS.items():
        asked = {name: getattr(query, name) for name in ("state", "agent", "tool", "kind", "shape")}
        made = select(store._dialect, sql._REQUESTS, "default", asked, query)
        explain = "EXPLAIN QUERY PLAN " if lite else "EXPLAIN "
        told = await store.whole(lambda db, made=made, how=explain: db.execute(how + made.rows, *made.values))
        plan = "\n".join(str(part) for part in told)
        assert f"{'requests_open' if lite and index in FILTERED else index} " in plan, plan
        assert "SCAN requests" not in plan, plan
        assert "Seq Scan" not in plan, plan
        assert "TEMP B-TREE" not in plan, plan
    await store.close()


async def test_alike_asks_for_one_page_of_its_index_and_reads_what_is_alike_alone(place: Place) -> None:
    payer = Payer()
    async with App([payer.agent], place.url) as app:
        await (await app.start("payer", "go")).wait()
        [row] = await app.inbox.list()
        store: Any = app.journal
        others = [row_of(number, f"shape {number}") for number in range(3_000)]
        same = [replace(row, id=f"q{number:05}", asked_at=row.asked_at + number) for number in range(3_000, 3_600)]
        opened = Changes(RunRow("run", "payer", "waiting", 0, 0, 9), opened=others + same)
        await store.append("run", 0, [b"{}"], None, opened)
        asked = list[int]()
        inbox = Inbox(Counting(store, asked))
        page, after = await inbox.alike_page(row)
        assert (len(page), asked) == (500, [500, 0])
        rest, end = await inbox.alike_page(row, Query(after=after))
        assert (len(rest), end, asked) == (101, None, [500, 0, 101, 0])
        assert len({each.id for each in (*page, *rest)}) == 601


class Counting:
    """A store that says how many rows each list of requests gave."""

    def __init__(self, store: Any, asked: list[int]) -> None:
        self._store = store
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def requests(self, query: Query) -> list[RequestRow]:
        found: list[RequestRow] = await self._store.requests(query)
        if query.shape is not None:
            self._asked.append(len(found))
        return found
