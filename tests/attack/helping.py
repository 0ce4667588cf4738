"""What the attacks on keeping share: an agent that pays, and a way to bring a file back."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from keyturn import Agent, Inbox, Runner, RunState, function_tool
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs


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


async def go_on(journal: Any, run: str, payer: Payer) -> Any:
    return await Runner.run(payer.agent, await RunState.load(journal, run, payer.agent))


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
    """What somebody does to a store from a process of their own, since two SQLites in one break locks."""
    given = repr([(statement, tuple(values)) for statement, values in said])
    done = subprocess.run([sys.executable, "-c", _OTHER, str(file)], input=given, capture_output=True, text=True)
    if done.returncode:
        raise sqlite3.Error(done.stderr[-300:])
    return int(done.stdout.split()[-1])
