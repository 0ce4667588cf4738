"""`keyturn runs` lists runs, and says why one stopped and where."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, function_tool
from keyturn.cli.main import main
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel, function_call
from tests.waiting import until_status


@function_tool(failure_error_function=None)
async def pay(account: str) -> str:
    """Pay."""
    raise ValueError(f"no account {account}\x1b[2K\nrun forged")


@function_tool(needs_approval=True)
async def wire(account: str) -> str:
    """Wire."""
    return account


async def fill(path: Path) -> dict[str, str]:
    """Make a journal with a run that failed, one that waits and one that is done."""
    store = SQLiteJournal(path)
    agents: list[Agent[Any]] = [
        Agent("broken", model=ScriptedModel([function_call("pay", {"account": "A-17"})]), tools=[pay]),
        Agent('ask "him', model=ScriptedModel([function_call("wire", {"account": "A-17"})]), tools=[wire]),
        Agent("fine", model=ScriptedModel(["done"])),
    ]
    started: dict[str, str] = {}
    async with App(agents, store) as app:
        for agent, status in zip(agents, ("failed", "waiting", "finished"), strict=True):
            started[status] = (await app.start(agent.name, "go")).id
            await until_status(app, started[status], status)
    await store.close()
    return started


@pytest.fixture
def journal(tmp_path: Path, own_key: None) -> tuple[str, dict[str, str]]:
    return f"sqlite:///{tmp_path}/runs.db", asyncio.run(fill(tmp_path / "runs.db"))


def test_runs_are_listed_newest_first(journal: tuple[str, dict[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    url, started = journal
    assert main(["runs", url]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[1] for row in rows] == [started[each] for each in ("finished", "waiting", "failed")]
    assert rows[0].endswith('finished agent "fine" turns 1')
    assert rows[1].endswith('waiting agent "ask \\"him" turns 1 waiting calls 1')
    assert rows[2].endswith('failed agent "broken" turns 1 because ValueError: no account A-17\\u{1b}[2K\\nrun forged')


def test_runs_are_chosen(journal: tuple[str, dict[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    url, started = journal
    for chosen, wanted in (
        (["--status", "waiting"], ["waiting"]), (["--agent", "fine"], ["finished"]), (["--limit", "1"], ["finished"]),
    ):  # fmt: skip
        assert main(["runs", url, *chosen]) == 0
        assert [row.split()[1] for row in capsys.readouterr().out.splitlines()] == [started[each] for each in wanted]
    assert main(["runs", url, "--tenant", "other"]) == 0
    assert capsys.readouterr().out == "no runs\n"


def test_one_run_says_where_it_failed(journal: tuple[str, dict[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    url, started = journal
    assert main(["runs", url, started["failed"]]) == 0
    first, *trace = capsys.readouterr().out.splitlines()
    assert "because ValueError" in first
    assert trace[0] == "  | Traceback (most recent call last):"
    assert any(line.endswith("in pay") for line in trace)
    assert all(line.startswith("  | ") for line in trace)
    assert "\x1b" not in "".join(trace)
    assert main(["runs", url, started["finished"]]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_run_that_is_not_there_is_named(
    journal: tuple[str, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", journal[0], "5e1f"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "keyturn runs: the journal has no run '5e1f'\n")
