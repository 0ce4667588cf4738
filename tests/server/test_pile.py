"""However many requests wait, one request to a server reads a bounded number of rows: counted, not timed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from keyturn import MemoryJournal
from keyturn.inbox import decisions
from keyturn.journal.rows import Query, RequestRow
from tests.server.programs import program
from tests.server.web.test_sight import bank


class Pile:
    """Lets a store look as if very many requests of one tool waited, and counts the rows that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
        self.rows = 0
        self.open: list[RequestRow] = []
        real = MemoryJournal.requests

        async def requests(store: MemoryJournal, query: Query, *rest: Any) -> Any:
            if query.id is not None or query.tool is None or not self.open:
                found = await real(store, query, *rest)
            else:
                start = 0 if query.after is None else query.after[0] + 1
                found = self.open[start : start + query.limit]
            self.rows += len(found)
            return found

        monkeypatch.setattr(MemoryJournal, "requests", requests)
        self.every = every

    def heap(self, row: RequestRow, count: int) -> None:
        told = json.loads(row.body)
        bodies = [json.dumps(told | {"shape": "another"}), row.body]
        self.open = [
            msgspec.structs.replace(row, asked_at=number, body=bodies[number % self.every == 0])
            for number in range(count)
        ]


async def test_requests_that_are_alike_are_found_page_by_page_in_a_bounded_number_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pile = Pile(monkeypatch, every=1_000)
    async with program() as at:
        made = await at.waiting()
        [row] = await at.app.journal.requests(Query(id=made["id"]))
        pile.heap(row, 6_500)
        found, after, pages = 0, "", 0
        while True:
            pile.rows = 0
            page = await at.get(f"/requests/{row.id}/alike" + (f"?after={after}" if after else ""))
            assert pile.rows <= decisions.LOOKS + 10
            found, after, pages = found + len(page["requests"]), page["next"], pages + 1
            if after is None:
                break
        assert (found, pages) == (7, 4)


async def test_the_page_of_those_that_are_alike_and_deciding_them_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pile = Pile(monkeypatch, every=10)
    async with bank() as at:
        row = at.request
        pile.heap(row, 20_000)
        pile.rows = 0
        ben = at.as_("ben")
        fields = await ben.fields(f"/requests/{row.id}/alike")
        assert pile.rows <= decisions.LOOKS + 20
        pile.rows = 0
        body = {"form_mark": fields["form_mark"], "verdict": "approve", f"is.{row.id}.{row.digest}": "on"}
        done = await ben.send(f"/requests/{row.id}/alike", body)
        assert done.status_code == 200
        assert pile.rows <= 20, "those that were ticked, and no other"
        assert "1" in done.text
