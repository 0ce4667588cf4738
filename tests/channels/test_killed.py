"""G8: whatever is killed at whatever moment, each notice is told at least once, and in order."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests import forked

# A dispatcher that was killed holds its lease for half a minute: in these lives it is shorter.
PROGRAM = """
import asyncio, sys
import keyturn.channels.dispatcher
keyturn.channels.dispatcher.TTL_MS = 300
from keyturn.journal import open_journal
from tests.channels.telling import Ledger, asked, dispatching
from keyturn.inbox.desk import Inbox

async def main(url, told, count):
    journal, file = open_journal(url), open(told, "a", buffering=1)
    books = Ledger("books", lambda message: file.write(f"{message.topic} {message.request}\\n"))
    async with dispatching(journal, books):
        for place in range(count):
            row = (await asked(journal, f"p{place}"))[0]
            file.write(f"asked {row.id}\\n")
            await Inbox(journal).reject(row, by="bob")
            file.write(f"rejected {row.id}\\n")
        while await journal.outbox(1) or await journal.deliveries(query):
            await asyncio.sleep(0.02)
    print("all told", flush=True)

from keyturn.journal.rows import DeliveryQuery
query = DeliveryQuery(limit=1)
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def lived(url: str, told: Path, count: int, seconds: float | None) -> bool:
    """Play one life, killed after some time; whether it came to its end."""
    program = PROGRAM.replace(
        "import asyncio, sys", "import asyncio, sys\nimport keyturn.channels.dispatcher as d\nd.TTL_MS = 300", 1
    )
    process = forked.Program(
        ["-c", program, url, str(told), str(count)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2] / 'src'}{os.pathsep}{Path(__file__).parents[2]}"},
        stdout=forked.PIPE,
    )
    if seconds is not None:
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
    return b"all told" in process.communicate(timeout=120)[0]


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_whatever_is_killed_nothing_is_lost(tmp_path: Path, sweep_size: int) -> None:
    url, told, dice = f"sqlite:///{tmp_path}/runs.db", tmp_path / "told", random.Random(11)
    for _ in range(max(sweep_size // 8, 1)):
        lived(url, told, 1_000, dice.uniform(1.0, 2.5))
    assert lived(url, told, 3, None)
    lines = [line.split() for line in told.read_text().splitlines() if line.count(" ") == 1]
    first = dict[tuple[str, str], int]()
    for place, (what, request) in enumerate(lines):
        first.setdefault((what, request), place)
    asked = [request for what, request in first if what == "asked"]
    assert len(asked) > 5
    for request in asked:
        assert ("request.created", request) in first, "a request that was recorded is told"
        if ("rejected", request) in first:
            assert first["request.created", request] < first["request.decided", request], "and in order"
