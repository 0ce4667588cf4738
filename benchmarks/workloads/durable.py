"""A long conversation of approvals on disk: `n` pauses, the run found again in SQLite at each.

Who has no journal of its own gets one row of text in a table, committed once a round: less than a journal promises.
"""

import asyncio
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from ..sampling import seconds
from ..script import Script, require
from ..subjects import Subject


class Shelf:
    """One text in a SQLite file, with WAL and `synchronous=FULL`."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._db.execute(f"PRAGMA {pragma}").fetchall()
        self._db.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, body BLOB)")

    def keep(self, body: str | bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO kept VALUES (1, ?)", (body,))

    def found(self) -> str | bytes:
        return self._db.execute("SELECT body FROM kept WHERE id = 1").fetchone()[0]

    async def close(self) -> None:
        self._db.close()


async def rounds(driver: Any, shelf: Any, n: int) -> None:
    """One run with `n` pauses, taken from the shelf at each."""
    held = await driver.start()
    for _ in range(n):
        require(driver.pending(held) == 1, "the run did not pause")
        shelf.keep(driver.save(held))
        held = await driver.approve(await driver.load(shelf.found()))
    require(driver.pending(held) == 0, "the run did not finish")


def measure(subject: Subject, n: int) -> dict[str, float]:
    """Milliseconds a round, the kilobytes of the database afterwards, and the megabytes written to disk meanwhile."""
    make = subject.driver()

    async def run(count: int, path: Path) -> float:
        script = Script([["gated"]] * count + [[]])
        driver = make(script)
        shelf = driver.shelf(path) if hasattr(driver, "shelf") else Shelf(path)
        elapsed = await seconds(asyncio.ensure_future(rounds(driver, shelf, count)))
        await shelf.close()
        script.check(models=count + 1, tools=count)
        return elapsed

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(3, Path(folder) / "warm.db"))
        before, path = written(), Path(folder) / "runs.db"
        elapsed = asyncio.run(run(n, path))
        return {"ms": elapsed * 1e3 / n, "kb": path.stat().st_size / 1e3, "mb": (written() - before) / 1e6}


def written() -> int:
    """The bytes that this process has caused to be written to disk; 0 where nobody counts them."""
    counts = Path("/proc/self/io")
    lines = counts.read_text().splitlines() if counts.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("write_bytes")), 0)
