"""A16: memory that runs out in a tool, in a model's reply or in an append leaves nothing half done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keyturn import Runner, RunState
from keyturn.audit.checker import check
from keyturn.journal.sqlite import SQLiteJournal
from tests.journal.short_of_memory import PLACES, agent

# Memory is asked of the system each time, and not found in what was used and freed before.
TIGHT = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0"}


def later() -> int:
    """When the claims of the process before are over."""
    return time.time_ns() // 1_000_000 + 120_000


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process cannot be short of memory on purpose")
async def test_a16_what_memory_ran_out_of_goes_on_in_another_process(tmp_path: Path) -> None:
    """I2, I5, I6: a typed error or a failed result; the log is whole, and the run is taken up and ends."""
    effects, file = tmp_path / "effects", tmp_path / "runs.db"
    command = [sys.executable, "-m", "tests.journal.short_of_memory", f"sqlite:///{file}", str(effects)]
    child = subprocess.run(command, env={**os.environ, **TIGHT}, capture_output=True, text=True, timeout=60)
    assert child.returncode == 0, child.stderr
    told = [json.loads(line) for line in child.stdout.splitlines()]
    raised = {name: error for name, _run, error in told}
    assert len(told) == len(PLACES)
    assert set(raised.values()) <= {"", "MemoryError", "StorageError", "StorageFull"}
    assert [raised[f"{place} {margin}"] for place, margin in PLACES[:4]] == ["", "", "MemoryError", "MemoryError"]

    journal, ops = SQLiteJournal(file, clock=later), agent(effects, greedy=False)
    assert (await check(journal)).ok
    doubts = 0
    for _name, run, error in told:
        result = await Runner.run(ops, await RunState.load(journal, run, ops))
        assert error or not result.interruptions
        for item in result.interruptions:
            doubts += 1
            state = result.to_state()
            state.resolve(item, "ran", "acted, as its own record shows")
            result = await Runner.run(ops, state)
        assert result.final_output == "done"
    # Memory may also run out once the result is recorded: then nobody has anything to say.
    assert 0 < doubts <= sum(bool(error) for name, error in raised.items() if name.startswith("append"))
    assert sorted(effects.read_text().splitlines()) == sorted(raised), "each acted once"
    report = await check(journal)
    assert report.ok, report.violations
    await journal.close()
