"""A worker whose process died is noticed at once, and one that may live is given time; leases fence off the wrong."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keyturn.engine import presence
from keyturn.engine.presence import HolderWatch
from keyturn.journal import open_journal
from keyturn.journal.optional import WATCHED
from tests.journal.restoring import Place
from tests.waiting import until

MINUTE = 60_000
HOLDER = """
import asyncio, sys
from keyturn.journal import open_journal

async def main():
    journal = open_journal(sys.argv[1])
    shown = await journal.be_present(sys.argv[2])
    await journal.append("run", 0, [b"1"])
    await journal.claim("run", sys.argv[2], 60_000)
    print("holds" if shown else "cannot show it", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def absent(journal: Any, workers: list[str]) -> None:
    """Wait until these are absent: the system says so a moment after a process ended."""

    async def are_absent() -> bool:
        return await journal.absent() == workers

    await until(are_absent)


async def test_the_runs_of_a_process_that_died_are_due_before_its_lease_is_over(place: Place) -> None:
    worker, words = f"worker-1@here{WATCHED}", [sys.executable, "-c", HOLDER, place.url]
    with subprocess.Popen([*words, f"worker-1@here{WATCHED}"], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        journal: Any = open_journal(place.url)
        assert (await journal.absent(), await journal.due()) == ([], [])
        [row] = await journal.workers()
        assert (row.name, row.runs, row.alive) == (worker, 1, True)
        assert row.since > 0 < row.until
        [(epoch,)] = await journal.whole(lambda db: db.execute("SELECT epoch FROM runs"))
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        await absent(journal, [worker])
        assert [(row.name, row.runs, row.alive) for row in await journal.workers()] == [(worker, 1, False)]
        await journal.end_claims(worker)
        assert await journal.due() == ["run"]
        claim = await journal.claim("run", "another", MINUTE)
        assert (claim.epoch, claim.lost) == (epoch + 1, 1), "it is counted as one that died"
        assert await journal.absent() == [], "and who is not watched is never taken for dead"
        await journal.close()


@pytest.mark.each
async def test_a_worker_that_leaves_shows_itself_no_more(place: Place, tmp_path: Path) -> None:
    journal: Any = open_journal(place.url)
    other: Any = open_journal(place.url)
    worker = f"worker-2@here{WATCHED}"
    assert await journal.be_present(worker)
    assert await other.be_present(f"another{WATCHED}")
    await journal.append("run", 0, [b"1"])
    await journal.claim("run", worker, MINUTE)
    assert await other.absent() == []
    assert [(row.runs, row.alive) for row in await other.workers()] in ([(0, True), (1, True)], [(1, True), (0, True)])
    await journal.be_absent(worker)
    if place.url.startswith("postgresql"):
        await absent(other, [worker])
    else:
        assert await other.absent() == [], "a file that is not there says nothing"
        assert [each.name for each in next(tmp_path.glob("*-workers")).iterdir()] == [f"another{WATCHED}"]
    await journal.close()
    await other.close()


class _Store:
    """Says of the workers in `missing` that nothing shows that they live."""

    def __init__(self) -> None:
        self.missing, self.ended = list[str](), list[str]()

    async def be_present(self, worker: str) -> bool:
        return bool(worker)

    async def be_absent(self, worker: str) -> None:
        self.missing.append(worker)

    async def absent(self) -> list[str]:
        return list(self.missing)

    async def end_claims(self, worker: str) -> None:
        self.ended.append(worker)


async def test_a_worker_is_taken_for_dead_after_several_looks_and_not_while_all_connect_anew() -> None:
    clock, store = [100.0], _Store()
    watch = HolderWatch(store, lambda: clock[0])

    async def looks(*pauses: float) -> list[str]:
        for pause in pauses:
            clock[0] += pause
            await watch.look()
        ended, store.ended = store.ended, []
        return ended

    store.missing = ["blinked"]
    assert await looks(1.0) == []
    store.missing = []
    assert await looks(0.75, 1.0) == []
    store.missing = ["died"]
    assert await looks(1.0, 0.75) == []
    assert await looks(0.75) == ["died"]
    assert await looks(30.0, 1.0, 1.0, 1.0) == [], "the database stood still, or this process: all connect anew"
    assert "died" in await looks(3.0, 3.0, 3.0)


async def test_a_watch_outlives_an_error_of_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()

    class Broken(_Store):
        async def absent(self) -> list[str]:
            asked.append(1)
            raise OSError("gone")

    monkeypatch.setattr(presence, "_EVERY", 0)
    watching = asyncio.ensure_future(HolderWatch(Broken()).run())
    await until(lambda: len(asked) > 2)
    watching.cancel()
