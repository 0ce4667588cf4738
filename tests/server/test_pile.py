"""However many requests wait, one request to a server reads a bounded number of rows: counted, not timed."""

from __future__ import annotations

import html
import re
from typing import Any

import msgspec
import pytest

from keyturn import MemoryJournal
from keyturn.inbox import reading
from keyturn.inbox.listing import PAGES, SORTED, Filters, ListPlace, listed
from keyturn.inbox_screen.reading import InboxSeat
from keyturn.journal.rows import Changes, Closing, Query, RequestRow, RunRow
from tests.server.programs import program
from tests.server.web.test_sight import bank


class Pile:
    """Lets a store look as if very many requests of one tool waited, and counts the rows that are read.

    With `older`, they are as an earlier version left them: without a shape in their column.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, every: int, *, older: bool = False) -> None:
        self.rows = 0
        self.open: list[RequestRow] = []
        self.older = older
        real = MemoryJournal.requests

        async def requests(store: MemoryJournal, query: Query, *rest: Any) -> Any:
            if query.id is not None or query.shape is None or not self.open:
                found = await real(store, query, *rest)
            else:
                found = self._page(query)
            self.rows += len(found)
            return found

        monkeypatch.setattr(MemoryJournal, "requests", requests)
        self.every = every

    def _page(self, query: Query) -> list[RequestRow]:
        if (query.shape == "") is not self.older:
            return []
        start = 0 if query.after is None else query.after[0] + 1
        rest = self.open[start:]
        return (rest if self.older else [row for row in rest if row.shape == query.shape])[: query.limit]

    def heap(self, row: RequestRow, count: int) -> None:
        shapes = ["another", row.shape]
        self.open = [
            msgspec.structs.replace(row, asked_at=number, shape=shapes[number % self.every == 0])
            for number in range(count)
        ]
        for place, each in enumerate(self.open):
            self.open[place] = msgspec.structs.replace(each, id=f"{place:032x}")


@pytest.mark.each
@pytest.mark.parametrize(("older", "most", "pages"), [(False, 500, 3), (True, reading.LOOKS, 4)])
async def test_requests_that_are_alike_are_found_page_by_page_in_a_bounded_number_of_rows(
    monkeypatch: pytest.MonkeyPatch, older: bool, most: int, pages: int
) -> None:
    pile = Pile(monkeypatch, every=5, older=older)
    async with program() as at:
        made = await at.waiting()
        [row] = await at.app.journal.requests(Query(id=made["id"]))
        pile.heap(row, 6_500)
        found, after, seen = 0, "", 0
        while True:
            pile.rows = 0
            page = await at.get(f"/requests/{row.id}/alike" + (f"?after={after}" if after else ""))
            assert pile.rows <= most + 10
            found, after, seen = found + len(page["requests"]), page["next"], seen + 1
            if after is None:
                break
        assert (found, seen) == (1_300, pages)


async def test_the_page_of_those_that_are_alike_and_deciding_them_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pile = Pile(monkeypatch, every=10)
    async with bank() as at:
        row = at.request
        pile.heap(row, 20_000)
        pile.rows = 0
        ben = at.as_("ben")
        fields = await ben.fields(f"/requests/{row.id}/alike")
        assert pile.rows <= 500 + 70  # the last 50 decided ones as well, for an identical one that was rejected
        pile.rows = 0
        body = {"csrf_token": fields["csrf_token"], "verdict": "approve", f"is.{row.id}.{row.digest}": "on"}
        done = await ben.send(f"/requests/{row.id}/alike", body)
        assert done.status_code == 200
        assert pile.rows <= 20, "those that were ticked, and no other"
        assert "1" in done.text


async def test_a_search_reads_so_many_rows_for_a_page_and_its_pages_find_what_is_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = list[int]()
    real = MemoryJournal.requests

    async def requests(store: MemoryJournal, query: Query) -> Any:
        found = await real(store, query)
        read.append(len(found))
        return found

    async with bank() as at:
        row = at.request
        others = [
            msgspec.structs.replace(row, id=f"{number:032x}", asked_at=row.asked_at + number, reason=f"no. {number}")
            for number in range(1, 6_001)
        ]
        changes = Changes(RunRow(row.run, "desk", "waiting", 0, 0, 9), opened=others)
        store: Any = at.app.journal
        store._mine.rows.apply(changes)
        monkeypatch.setattr(MemoryJournal, "requests", requests)
        ben, path, pages, shown = at.as_("ben"), "/?text=no.+5999", 0, list[str]()
        while path:
            read.clear()
            page = (await ben.see(path)).text
            assert max(read) <= SORTED
            assert sum(read) <= SORTED * PAGES + 72
            shown += re.findall(r'class="row[^"]*" href="/requests/([0-9a-f]+)', page)
            assert ("No match so far." in page) == (not shown)
            more = re.search(r'rel="next" href="([^"]+)"', page)
            path, pages = html.unescape(more[1]) if more else "", pages + 1
        assert (pages, set(shown)) == (4, {f"{5_999:032x}"})


async def test_the_pages_of_a_list_are_all_that_waits_where_more_is_found_than_one_sorts() -> None:
    async with bank() as at:
        row, store = at.request, at.app.journal
        others = [
            msgspec.structs.replace(row, id=f"{number:032x}", asked_at=row.asked_at + number)
            for number in range(1, 1_300)
        ]
        store._mine.rows.apply(Changes(RunRow(row.run, "desk", "waiting", 0, 0, 9), opened=others))
        found, after = list[str](), None
        while True:
            page = await listed(at.app.inbox, Filters(after=after), lambda _row: True)
            assert page.found <= SORTED
            found += [row.id for row in page.rows]
            if len(found) == 100:  # what is decided or asked meanwhile moves nothing from one page to another
                gone = [Closing(each, "approve", row.asked_at + 9_999, "ada") for each in found[:70]]
                new = msgspec.structs.replace(row, id="f" * 32, asked_at=row.asked_at + 5_000)
                store._mine.rows.apply(Changes(RunRow(row.run, "desk", "waiting", 0, 0, 9), opened=[new], closed=gone))
            after = None if page.next is None else ListPlace.of_token(page.next.token)
            if after is None:
                break
        assert found == [row.id, *(each.id for each in others), "f" * 32]


async def test_a_search_in_the_terminal_finds_more_than_the_oldest_page() -> None:
    async with bank() as at:
        row, store = at.request, at.app.journal
        others = [
            msgspec.structs.replace(row, id=f"{number:032x}", reason=f"no. {number}", asked_at=row.asked_at + number)
            for number in range(1, 1_300)
        ]
        store._mine.rows.apply(Changes(RunRow(row.run, "desk", "waiting", 0, 0, 9), opened=others))
        seat = InboxSeat(at.app.inbox.as_person("ben"), "ben")
        found = await seat.lists(Filters(text="no. 1299"))
        assert ([each.id for each in found.rows], found.whole) == ([f"{1_299:032x}"], True)
        assert not (await seat.lists(Filters())).whole
