"""Messages that could not be delivered are listed, and sent again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from keyturn.channels.dispatcher import LEASE
from keyturn.cli.main import main
from keyturn.journal import open_journal
from keyturn.journal.rows import Delivery, DeliveryQuery, Dispatch


def test_dead_messages_are_listed_and_sent_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"

    async def fill() -> None:
        journal = open_journal(url)
        claim = await journal.claim(LEASE, "x", 60_000)
        dead = Delivery("mail", "ada\x1b[2J", "request.created", "run", "q1", attempts=12, state="dead", error="gone")
        await journal.dispatch(claim, Dispatch(added=[dead, Delivery("mail", "bob", "request.created", "run", "q2")]))
        await journal.release(claim)
        await journal.close()  # type: ignore[attr-defined]  # a file's has it

    async def states() -> list[str]:
        journal = open_journal(url)
        found = [row.state for row in await journal.deliveries(DeliveryQuery())]
        await journal.close()  # type: ignore[attr-defined]  # a file's has it
        return found

    asyncio.run(fill())
    assert main(["notifications", url]) == 1
    said = capsys.readouterr().out
    assert said == "     1 dead mail ada\\u{1b}[2J request.created q1  12 attempts: gone\n"
    assert main(["notifications", url, "--all", "--json"]) == 1
    assert [json.loads(line)["person"] for line in capsys.readouterr().out.splitlines()] == ["ada\x1b[2J", "bob"]
    assert main(["notifications", url, "--again"]) == 0
    assert capsys.readouterr().out == "1 will be sent again\n"
    assert main(["notifications", url]) == 0
    assert asyncio.run(states()) == ["waiting", "waiting"]
    assert main(["notifications", "nonsense"]) == 2
