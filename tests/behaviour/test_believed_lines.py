"""Runs that are taken up from a journal: what is not the line that was written is not acted on, and nothing hangs."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyturn import Agent, Approval, Inbox, MemoryJournal, RunConfig, Runner, RunState, UserError, function_tool
from keyturn.agents.settings import ToolExecutionConfig
from keyturn.core import commands as cm
from keyturn.core.errors import LogDamaged, StorageError
from keyturn.engine.run.log_cache import forget
from keyturn.engine.run.open_run import counted_from, steady
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.playing import Desk, call, script


def payer_of_111(**terms: Any) -> Desk:
    """An agent that asks to pay 111, in whatever process it is asked."""
    return Desk(model=script([call("pay", "c1", amount=111)], "done"), **terms)


def altered(file: Path, statement: str, *values: Any) -> None:
    db = apsw.Connection(str(file))  # as the journal's own: another library would drop its locks
    db.execute(statement, values)
    assert db.total_changes()
    db.close()


async def test_one_bit_of_an_approved_edit_runs_nothing(tmp_path: Path) -> None:
    """H3: 111 -> 511 in the line of the decision; the run is refused, and the tool is not touched."""
    desk, file = payer_of_111(), tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    run = (await Runner.run(desk.agent, "go", journal=journal)).run_id
    [row] = await journal.requests()
    await Inbox(journal, {"desk": desk.agent}).approve(row, by="ann", edit={"amount": 111})
    head = await journal.head(run)
    await journal.close()
    [(line,)] = sqlite3.connect(file).execute("SELECT line FROM events WHERE seq = ?", (head - 1,)).fetchall()
    assert b"111" in line
    altered(file, "UPDATE events SET line = ? WHERE seq = ?", line.replace(b"111", b"511"), head - 1)
    forget()
    journal = SQLiteJournal(file)
    with pytest.raises(LogDamaged) as caught:
        await Runner.run(desk.agent, await RunState.load(journal, run, desk.agent))
    assert (caught.value.run, caught.value.line, desk.paid) == (run, head - 1, [])
    await journal.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_bare_state_is_not_resumed_in_a_journal_that_does_not_hold_its_run(kind: str, tmp_path: Path) -> None:
    """H4: it went round for ever; the journal has nothing of the run, and the run is somewhere else."""
    desk = payer_of_111()
    state = (await Runner.run(desk.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    journal: Any = MemoryJournal() if kind == "memory" else SQLiteJournal(tmp_path / "new.db")
    async with asyncio.timeout(10):
        with pytest.raises(UserError, match="does not have run"):
            await Runner.run(desk.agent, state, journal=journal)
    assert (desk.paid, await journal.head(state.run_id), await journal.due()) == ([], 0, [])


async def test_a_text_of_a_journalled_run_goes_on_in_its_journal(tmp_path: Path) -> None:
    """What the text says is the beginning of what the journal has; the chain goes on from there."""
    desk, journal = payer_of_111(), SQLiteJournal(tmp_path / "runs.db")
    text = (await Runner.run(desk.agent, "go", journal=journal)).to_state().to_string()
    forget()
    state = await RunState.from_string(desk.agent, text)
    state.approve(state.get_interruptions()[0], by="ann")
    assert (await Runner.run(desk.agent, state, journal=journal)).final_output == "done"
    assert desk.paid == [111]
    assert len((await RunState.load(journal, state.run_id, desk.agent)).live.log) == await journal.head(state.run_id)
    await journal.close()


@pytest.mark.parametrize("change", ["head = head + 1", "head = head - 1", "head = 1"])
async def test_a_head_that_is_not_so_ends_at_once(change: str, tmp_path: Path) -> None:
    """H4: however often it is tried, whoever appends would lose the race; it is told instead."""
    desk, file = payer_of_111(), tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    run = (await Runner.run(desk.agent, "go", journal=journal)).run_id
    state = await RunState.load(journal, run, desk.agent)
    state.approve(state.get_interruptions()[0], by="ann")
    altered(file, f"UPDATE runs SET {change}")
    async with asyncio.timeout(20):
        with pytest.raises(StorageError):
            await Runner.run(desk.agent, state)
        with pytest.raises(StorageError):
            await Inbox(journal).tell(run, cm.Cancel("ann", "enough"))
    assert desk.paid == []
    await journal.close()


async def test_a_tail_that_is_lost_is_told(tmp_path: Path) -> None:
    """H4: the decision was there, and the store still counts it."""
    desk, file = payer_of_111(), tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    run = (await Runner.run(desk.agent, "go", journal=journal)).run_id
    head = await journal.head(run)
    altered(file, "DELETE FROM events WHERE seq = ?", head - 1)
    forget()
    with pytest.raises(LogDamaged) as caught:
        await RunState.load(journal, run, desk.agent)
    assert caught.value.line == head - 1
    await journal.close()


async def test_an_approval_is_stale_after_the_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    """M2: eight hours with the lid closed between the approval and its call's turn; it asks again."""
    slept, paid = [0.0], list[str]()

    @function_tool(needs_approval=True)
    async def close_the_lid() -> str:
        slept[0] += 8 * 3_600
        return "morning"

    @function_tool(approval=Approval(execute_by="30m"))
    async def pay() -> str:
        paid.append("paid")
        return "paid"

    def reply(items: Any) -> Any:
        calls = [function_call("close_the_lid", {}, call_id="c1"), function_call("pay", {}, call_id="c2")]
        return "done" if tool_outputs(items) else calls

    agent = Agent("night", model=ScriptedModel(reply), tools=[close_the_lid, pay])
    state = (await Runner.run(agent, "go", journal=MemoryJournal())).to_state()
    for item in state.get_interruptions():
        state.approve(item, by="ann")
    monkeypatch.setattr(time, "clock_gettime", lambda _which: slept[0])
    one_by_one = RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))
    result = await Runner.run(agent, state, run_config=one_by_one)
    assert (paid, [item.tool_name for item in result.interruptions]) == ([], ["pay"])


def test_the_clock_that_is_counted_on_goes_on_in_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    """M2: CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC of macOS; `time.monotonic()` stands still on both."""
    asked: list[int] = []
    monkeypatch.setattr(time, "clock_gettime", lambda which: asked.append(which) or 7.0)
    assert steady() == 7.0
    assert asked == [getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))]
    assert counted_from(1_000, 5.0)() == 3_000
