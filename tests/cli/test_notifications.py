"""Messages that could not be delivered are listed, and sent again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from keyturn.channels.dispatcher import LEASE
from keyturn.cli.main import main
from keyturn.cli.notification_preview import FORMATS
from keyturn.journal import open_journal
from keyturn.journal.rows import Delivery, DeliveryQuery, Dispatch
from tests.channels.telling import asked


def test_dead_messages_are_listed_and_sent_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"

    async def fill() -> None:
        journal = open_journal(url)
        claim = await journal.claim(LEASE, "x", 60_000)
        dead = Delivery("mail", "ada\x1b[2J", "request.created", "run", "q1", attempts=12, state="dead", error="gone")
        others = [Delivery("mail", "bob", "request.created", "run", "q2", state=state) for state in ("waiting", "sent")]
        await journal.dispatch(claim, Dispatch(added=[dead, *others]))
        await journal.release(claim)
        await journal.close()  # type: ignore[attr-defined]  # a file's has it

    async def states() -> list[str]:
        journal = open_journal(url)
        found = [row.state for row in await journal.deliveries(DeliveryQuery())]
        await journal.close()  # type: ignore[attr-defined]  # a file's has it
        return found

    asyncio.run(fill())
    assert main(["notifications", "list", url]) == 1
    said = capsys.readouterr().out
    assert said == "     1 dead mail ada\\u{1b}[2J request.created q1  12 attempts: gone\n"
    assert main(["notifications", "list", url, "--all", "--json"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["person"], each["state"]) for each in told] == [
        ("ada\x1b[2J", "dead"),
        ("bob", "waiting"),
        ("bob", "sent"),
    ]
    assert main(["notifications", "list", url, "--request", "q2"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["waiting", "sent"]
    assert main(["notifications", "resend", url]) == 0
    assert capsys.readouterr().out == "1 notification will be resent\n"
    assert main(["notifications", "list", url]) == 0
    assert asyncio.run(states()) == ["waiting", "waiting"]
    assert main(["notifications", "list", "nonsense"]) == 2


def test_a_preview_is_what_each_channel_would_send(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an example without a journal, else of a request as its journal has it, by the first characters of its id."""
    for name in FORMATS:
        assert main(["notifications", "preview", "--format", name]) == 0
        shown = capsys.readouterr().out
        assert "pay_invoice" in shown, name
        assert name not in ("teams", "slack", "pagerduty", "opsgenie", "webhook") or json.loads(shown)
    url = f"sqlite:///{tmp_path}/runs.db"

    async def fill() -> str:
        journal = open_journal(url)
        rows = await asked(journal, "Lumen")
        await journal.close()  # type: ignore[attr-defined]  # a file's has it
        return rows[0].id

    name = asyncio.run(fill())
    assert main(["notifications", "preview", url, name[:8], "--no-details"]) == 0
    without = capsys.readouterr().out
    assert (name in without, "Lumen" in without) == (True, False)
    assert main(["notifications", "preview", url, name[:8]]) == 0
    assert "Lumen" in capsys.readouterr().out
    assert main(["notifications", "preview", url]) == 2
