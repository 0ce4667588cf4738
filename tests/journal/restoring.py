"""What the attacks on keeping share: an agent that pays, and a way to bring a file back."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import psycopg

from keyturn import Agent, Inbox, Runner, RunState, function_tool
from keyturn.engine.run.used_states import UsedStates
from keyturn.journal import open_journal
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs


async def loaded_elsewhere(journal: Any, run: str, agent: Agent[Any]) -> RunState[Any]:
    """The run as another process loads it: what this one remembers of it would decide before the store is asked."""
    state = await RunState.load(journal, run, agent)
    state.live.used = UsedStates()
    return state


class Payer:
    """An agent that pays once it was allowed to, and what it paid."""

    def __init__(self, **terms: Any) -> None:
        self.paid: list[str] = []

        @function_tool(**(terms or {"needs_approval": True}))
        def pay(to: str) -> str:
            self.paid.append(to)
            return f"paid {to}"

        def reply(items: Any) -> Any:
            return "done" if tool_outputs(items) else [function_call("pay", {"to": "ada"}, call_id="c1")]

        self.agent = Agent("payer", model=ScriptedModel(reply), tools=[pay])


@dataclass(frozen=True)
class Place:
    """Where a store of either database is kept; while nobody has it open a backup of it is made."""

    url: str

    def opened(self) -> Any:
        return open_journal(self.url)

    def back_up(self) -> None:
        self._copied(self.url, self._backup)

    def bring_back(self) -> None:
        """Put the backup in the store's place, under whoever has it open."""
        self._copied(self._backup, self.url)

    def copied_to(self, name: str) -> Place:
        """The store once more, beside it."""
        copy = self.url.rpartition("/")[0] + "/" + name
        self._copied(self.url, copy)
        return Place(copy)

    @property
    def _backup(self) -> str:
        return self.url + "_backup"

    def _copied(self, source: str, target: str) -> None:
        if self.url.startswith("sqlite"):
            _file_copied(*(Path(url.removeprefix("sqlite:///")) for url in (source, target)))
            return
        server = self.url.rpartition("/")[0] + "/postgres"
        one, other = (url.rpartition("/")[2] for url in (source, target))
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(f"DROP DATABASE IF EXISTS {other} WITH (FORCE)".encode())
            db.execute(f"CREATE DATABASE {other} TEMPLATE {one}".encode())


def _file_copied(source: Path, target: Path) -> None:
    """Copy a file into another that may be open, as SQLite's own `.restore` does."""
    one, other = apsw.Connection(str(source)), apsw.Connection(str(target))
    try:
        with other.backup("main", one, "main") as backup:
            backup.step()
    finally:
        one.close(), other.close()


def brought_back(source: Path, target: Path) -> None:
    for end in ("-wal", "-shm"):
        target.with_name(target.name + end).unlink(missing_ok=True)
    shutil.copyfile(source, target)


async def approved_and_copied(file: Path, payer: Payer, journal: Any = None) -> str:
    """A run whose call was approved and did not run yet; a backup is made of just that."""
    own = journal or SQLiteJournal(file)
    run = (await Runner.run(payer.agent, "go", journal=own)).run_id
    [row] = await own.requests()
    await Inbox(own).approve(row, by="ann")
    await own.backup(file.with_name("backup.db"))
    if journal is None:
        await own.close()
    return run


async def waits(journal: Any, payer: Payer, *, approved: bool = False) -> str:
    """A run whose call waits for approval, or was approved and did not run yet; its id."""
    run = (await Runner.run(payer.agent, "go", journal=journal)).run_id
    if approved:
        [row] = await Inbox(journal).list(run=run)
        await Inbox(journal).approve(row, by="ann")
    return run


async def go_on(journal: Any, run: str, payer: Any) -> Any:
    return await Runner.run(payer.agent, await loaded_elsewhere(journal, run, payer.agent))


async def paid_and_brought_back(file: Path, payer: Payer) -> str:
    run = await approved_and_copied(file, payer)
    journal = SQLiteJournal(file)
    await go_on(journal, run, payer)
    assert payer.paid == ["ada"]
    await journal.close()
    brought_back(file.with_name("backup.db"), file)
    return run


_OTHER = """
import ast, sqlite3, sys
with sqlite3.connect(sys.argv[1]) as db:
    for statement, values in ast.literal_eval(sys.stdin.read()):
        print(db.execute(statement, values).rowcount)
"""


def sql(file: Path, statement: str, *values: Any) -> int:
    return sqls(file, (statement, values))


def sqls(file: Path, *said: tuple[str, Any]) -> int:
    """What somebody does to a store from a process of their own: two SQLites in one process break their locks."""
    given = repr([(statement, tuple(values)) for statement, values in said])
    done = subprocess.run([sys.executable, "-c", _OTHER, str(file)], input=given, capture_output=True, text=True)
    if done.returncode:
        raise sqlite3.Error(done.stderr[-300:])
    return int(done.stdout.split()[-1])
