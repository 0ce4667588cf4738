"""Memory that runs out in a tool, in a model's reply or in any statement of the store leaves nothing half done.

A real limit fails wherever the allocator happens to be; here each place fails in turn, and all after it, until memory
is there again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, RunState, function_tool
from keyturn.audit.checker import check
from keyturn.journal.sqlite import SQLiteConnection, SQLiteJournal
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.playing import play


class Memory:
    """Is short from the statement of that number on; the statements of a store are numbered from the last `reset`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.short_at, self.count, self.now = -1, 0, 1_000
        for name in ("execute", "tell"):
            monkeypatch.setattr(SQLiteConnection, name, self._counted(getattr(SQLiteConnection, name)))

    def _counted(self, statement: Any) -> Any:
        def counted(connection: Any, sql: str, *values: Any) -> Any:
            self.count += 1
            self.check()
            return statement(connection, sql, *values)

        return counted

    def reset(self, short_at: int = -1) -> None:
        self.count, self.short_at = 0, short_at
        self.now += 120_000  # the leases of before are over

    def check(self) -> None:
        if 0 <= self.short_at < self.count:
            raise MemoryError


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    return Memory(monkeypatch)


def agent(acted: list[str], fails: str = "") -> Agent[Any]:
    @function_tool
    async def act() -> str:
        """Act."""
        acted.append("act")
        if fails == "tool":
            raise MemoryError
        return "acted"

    def reply(request: Any) -> Any:
        if not tool_outputs(request):
            return [function_call("act", {}, call_id="c1")]
        if fails == "model":
            raise MemoryError
        return "done"

    return Agent("a", model=ScriptedModel(reply), tools=[act])


async def ends(journal: Any, run: str, acted: list[str], streamed: bool) -> int:
    """Take a run up, and say of a call in doubt what the world shows; give back how many were in doubt."""
    ops = agent(acted)
    result = await play(ops, await RunState.load(journal, run, ops), streamed)
    doubts = list(result.interruptions)
    for item in doubts:
        state = result.to_state()
        state.resolve(item, *(("ran", "acted") if acted else ("retry",)), by="ada")
        result = await play(ops, state, streamed)
    assert (result.final_output, acted) == ("done", ["act"])
    return len(doubts)


async def test_what_memory_ran_out_of_in_a_statement_is_taken_up_and_ends(
    memory: Memory, tmp_path: Path, streamed: bool
) -> None:
    """I2, I5, I6: a typed error that tells how far the run came; the log is whole, and each call acts once."""
    journal = SQLiteJournal(tmp_path / "runs.db", clock=lambda: memory.now)
    await play(agent([]), "go", streamed, journal=journal)
    memory.reset()
    await play(agent([]), "go", streamed, journal=journal)
    statements, doubts = memory.count, 0
    for place in range(statements):
        acted: list[str] = []
        memory.reset(short_at=place)
        try:
            run = (await play(agent(acted), "go", streamed, journal=journal)).run_id
        except MemoryError as raised:
            known: Any = raised.__dict__.get("run_data")
            run = None if known is None else known.run_id
        memory.reset()
        if run is None or not await journal.head(run):  # nothing was recorded, so nothing ran
            assert not acted, place
            continue
        doubts += await ends(journal, run, acted, streamed)
    assert doubts > 0
    report = await check(journal)
    assert report.ok, report.violations
    await journal.close()


@pytest.mark.parametrize("fails", ["tool", "model"])
async def test_a_tool_or_a_model_without_memory_fails_its_call_alone(
    tmp_path: Path, fails: str, streamed: bool
) -> None:
    journal, acted = SQLiteJournal(tmp_path / "runs.db"), list[str]()
    if fails == "tool":
        assert (await play(agent(acted, fails), "go", streamed, journal=journal)).final_output == "done"
    else:
        with pytest.raises(MemoryError) as raised:
            await play(agent(acted, fails), "go", streamed, journal=journal)
        told: Any = raised.value
        assert await ends(journal, told.run_data.run_id, acted, streamed) == 0
    assert acted == ["act"]
    assert (await check(journal)).ok
    await journal.close()


async def test_an_error_tells_how_far_the_run_came_although_nothing_more_can_be_recorded(
    tmp_path: Path, streamed: bool, memory: Memory
) -> None:
    """What stopped the run is raised, with `run_data`, and not what followed from it."""
    journal, acted = SQLiteJournal(tmp_path / "runs.db", clock=lambda: memory.now), list[str]()
    ops = agent(acted)

    def reply(_request: Any) -> Any:
        memory.reset(short_at=0)
        raise LookupError("no reply")

    ops.model = ScriptedModel(reply)
    with pytest.raises(LookupError, match="no reply") as raised:
        await play(ops, "go", streamed, journal=journal)
    memory.reset()
    told: Any = raised.value
    assert await ends(journal, told.run_data.run_id, acted, streamed) == 0
    await journal.close()
