"""One account has as many open requests as its quota allows: what others do costs no more for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from keyturn import App, ExternalAgent
from keyturn.asks.ask import Ask
from keyturn.cli.doctor_checks import check_store
from keyturn.inbox.listing import PAGES, SORTED, Filters, grouped, listed
from keyturn.journal.memory import MemoryJournal
from keyturn.journal.rows import ALL, Query, RequestRow, RunRow
from keyturn.presenting.source import RequestSource
from keyturn.server.open_asks import OpenAsks, TooManyOpen
from tests.waiting import until


class Counted(MemoryJournal):
    """Counts the rows and the lines that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    async def _counted(self, what: str, found: Any) -> Any:
        rows: Sequence[Any] = await found
        self.count[what] += len(rows)
        return rows

    async def requests(self, query: Query = ALL) -> list[RequestRow]:
        return await self._counted("requests", super().requests(query))

    async def runs(self, query: Query = ALL) -> list[RunRow]:
        return await self._counted("runs", super().runs(query))

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[bytes]:
        return await self._counted("lines", super().read(run, after, limit))

    def since(self) -> Counter[str]:
        """Return what was read since the last time."""
        count, self.count = self.count, Counter()
        return count


def pay(number: int, host: str) -> Ask:
    return Ask(key=f"k{number}", tool="pay", arguments=f'{{"order": {number}}}', context={"host": host})


@pytest.mark.parametrize("many", [50, pytest.param(10_000, marks=[pytest.mark.trial, pytest.mark.timeout(7_200)])])
async def test_what_others_read_does_not_grow_with_the_open_requests_of_one_account(many: int) -> None:
    journal = Counted()
    async with App([ExternalAgent()], journal) as app:
        quota = OpenAsks(app, many)

        async def asked(number: int, account: str, host: str) -> str:
            await quota.check(account)
            id = (await app.asks.ask(pay(number, host), account=account)).id
            quota.opened(account, id)
            return id

        async def pending(id: str) -> Any:
            return await app.journal.requests(Query(run=id, state="open"))

        ids = [await asked(number, "ci", f"build-{number % 3}") for number in range(many)]
        for id in ids:
            await until(lambda id=id: pending(id), 600)

        journal.since()
        with pytest.raises(TooManyOpen):
            await asked(many, "ci", "build")
        assert (await app.asks.find(f"k{many}", account="ci"), journal.since()["runs"] <= 20) == (None, True)

        other = await asked(0, "cd", "laptop")
        [row] = await until(lambda: pending(other))
        await app.inbox.approve(row, by="ada")
        await until(lambda: _approved(app, other))
        state = await app.asks.get(other, account="cd")
        await app.asks.claim(other, state.digest, "c1", account="cd")
        await app.asks.report(other, "c1", "succeeded", account="cd")
        assert max(journal.since().values()) < 200  # looks that are repeated included

        page = await app.inbox.list(limit=20)
        assert (sorted(len(rows) for _, rows in grouped(page, "host")), journal.since()["requests"]) == ([6, 7, 7], 20)
        found = await listed(app.inbox, Filters(source=RequestSource(host="nowhere")), lambda _row: True)
        assert (found.found, journal.since()["requests"] <= (PAGES + 1) * SORTED) == (0, True)
        await check_store(journal)
        assert all(count <= 3 * 500 for count in journal.since().values())

        await app.asks.withdraw_all("cd")
        assert len(await app.journal.requests(Query(state="open", limit=many + 1))) == many
        await app.asks.withdraw_all("ci", why="it was removed")
        assert await app.journal.requests(Query(state="open")) == []
        await asked(many, "ci", "build")


async def _approved(app: App, id: str) -> bool:
    return (await app.asks.get(id, account="cd")).status == "approved"
