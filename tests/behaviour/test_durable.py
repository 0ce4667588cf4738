"""Runs on every journal there is: found again, moved once, and honest about what nobody knows."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from keyturn import Approval, Conflict, Expired, Grant, MemoryJournal, Runner, RunState
from keyturn.engine.run.log_cache import verify_run
from keyturn.journal import open_journal
from keyturn.journal.base import Store
from keyturn.journal.rows import Query
from keyturn.testing import assistant_message, function_call
from tests import forked
from tests.playing import HOUR, Desk

WORKER = Path(__file__).with_name("durable_worker.py")


async def states(store: Store, run: str) -> list[tuple[str, str]]:
    return [(row.tool, row.state) for row in await store.requests(Query(run=run))]


async def sound(store: Store, run: str) -> bool:
    return await verify_run(store, run) is None


async def test_a_run_is_found_again_by_its_id(store: Store) -> None:
    first = Desk()
    paused = await Runner.run(first.agent, "go", journal=store)
    assert [row.status for row in await store.runs()] == ["waiting"]
    [request] = await store.requests()
    assert (request.tool, request.state, request.agent) == ("pay", "open", "desk")
    assert request.digest == paused.interruptions[0].digest
    assert json.loads(request.body)["params"] == {"amount": 5}
    again = Desk(assistant_message("done"))
    state = await RunState.load(store, paused.run_id, again.agent)
    [item] = state.get_interruptions()
    state.approve(item, by="ada")
    result = await Runner.run(again.agent, state)
    assert (result.final_output, first.paid, again.paid) == ("done", [], [5])
    [row] = await store.runs()
    assert (row.status, row.waiting, row.agent) == ("finished", 0, "desk")
    [request] = await store.requests()
    assert (request.state, request.by) == ("approve", "ada")
    assert await sound(store, paused.run_id)
    assert await store.due() == []


async def test_two_who_resume_at_once_run_the_tool_once(store: Store) -> None:
    desk = Desk()
    paused = await Runner.run(desk.agent, "go", journal=store)
    others = [Desk(assistant_message("done")) for _ in range(4)]
    resumed = list[Any]()
    for other in others:
        state = await RunState.load(store, paused.run_id, other.agent)
        state.approve(state.get_interruptions()[0])
        resumed.append(Runner.run(other.agent, state))
    ended = await asyncio.gather(*resumed, return_exceptions=True)
    assert sum(len(other.paid) for other in others) == 1
    assert sum(isinstance(end, Conflict) for end in ended) == 3
    assert await states(store, paused.run_id) == [("pay", "approve")]


@pytest.mark.parametrize("verdict", ["reject", "answer"])
async def test_a_request_is_closed_with_its_verdict(store: Store, verdict: str) -> None:
    desk = Desk()
    state = (await Runner.run(desk.agent, "go", journal=store)).to_state()
    [item] = state.get_interruptions()
    state.reject(item) if verdict == "reject" else state.answer(item, "paid by hand")
    assert (await Runner.run(desk.agent, state)).final_output == "done"
    assert (desk.paid, await states(store, state.run_id)) == ([], [("pay", verdict)])


async def test_grants_are_rows_with_their_uses(store: Store) -> None:
    rounds = [[function_call("pay", {"amount": n}, call_id=f"c{n}")] for n in (1, 2, 3)]
    desk = Desk(*rounds, assistant_message("done"))
    state = (await Runner.run(desk.agent, "go", journal=store)).to_state()
    state.approve(state.get_interruptions()[0], grant=Grant(uses=1))
    paused = await Runner.run(desk.agent, state)
    [grant] = await store.grants()
    assert (grant.tool, grant.uses, grant.revoked, desk.paid) == ("pay", 1, False, [1, 2])
    assert [row.state for row in await store.requests(Query(state="open"))] == ["open"]
    assert len(paused.interruptions) == 1


async def test_what_stops_a_run_is_recorded_and_told_before_the_run_is_given_back(store: Store) -> None:
    desk = Desk(OSError("the provider is down"), assistant_message("done"))
    with pytest.raises(OSError, match="provider") as stopped:
        await Runner.run(desk.agent, "go", journal=store)
    [row] = await store.runs()
    assert (row.status, row.error) == ("failed", "OSError: the provider is down")
    state = await RunState.load(store, row.run, desk.agent)
    assert (await Runner.run(desk.agent, state)).final_output == "done"
    assert stopped.value.run_data.run_id == row.run  # type: ignore[attr-defined]  # every error has it


async def test_who_decides_on_a_loaded_run_decides_by_the_journals_time() -> None:
    desk, time = Desk(approval=Approval(expires="1h")), [1_000]
    journal = MemoryJournal(lambda: time[0])  # decades behind this process
    run = (await Runner.run(desk.agent, "go", journal=journal)).run_id
    state = await RunState.load(journal, run, desk.agent)
    state.approve(state.get_interruptions()[0])
    assert state.undelivered.decisions["r/1.0"].at < 60_000
    time[0] += 2 * HOUR  # the clock of this process ticks meanwhile, and a run is given a time by both
    late = await RunState.load(journal, run, desk.agent)
    with pytest.raises(Expired):
        late.approve(late.get_interruptions()[0])
    with pytest.raises(Expired):  # M1: it was said in time and is delivered too late
        await Runner.run(desk.agent, state)
    assert (await Runner.run(desk.agent, state)).final_output == "done"
    assert desk.paid == []


async def test_a_url_names_a_journal_everywhere(tmp_path: Path) -> None:
    url, desk = f"sqlite:///{tmp_path}/by_url.db", Desk()
    run_id = (await Runner.run(desk.agent, "go", journal=url)).run_id
    again = Desk(assistant_message("done"))
    state = await RunState.load(url, run_id, again.agent)
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(again.agent, state)).final_output == "done"
    assert again.paid == [5]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_process_killed_around_its_effect_leaves_a_doubt(tmp_path: Path, when: str, streamed: bool) -> None:
    """From the outside the two cannot be told apart, and neither runs again by itself."""
    url, effects = f"sqlite:///{tmp_path}/runs.db", tmp_path / "effects"
    effects.touch()
    desk = Desk()
    run_id = (await Runner.run(desk.agent, "go", journal=url)).run_id
    command = [str(WORKER), url, run_id, str(effects), when, str(streamed)]
    ended = forked.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert effects.read_text().count("paid") == (1 if when == "after" else 0)
    journal: Any = open_journal(url)
    assert [row.status for row in await journal.runs()] == ["running"]
    await take_over(journal, run_id)
    again = Desk(assistant_message("done"))
    result = await Runner.run(again.agent, await RunState.load(journal, run_id, again.agent))
    [item] = result.interruptions
    assert (item.kind, again.paid) == ("in_doubt", [])
    [request] = await journal.requests(Query(state="open"))
    assert (request.kind, request.tool) == ("in_doubt", "pay")
    state = result.to_state()
    state.resolve(item, "ran", output="paid 5", by="ada")
    assert (await Runner.run(again.agent, state)).final_output == "done"
    assert (again.paid, await sound(journal, run_id)) == ([], True)
    await journal.close()


async def take_over(journal: Any, run_id: str) -> None:
    """The dead worker's claim lasts a minute; nobody here waits that long, so its time is set to be up."""
    await journal._writer.ask(lambda db: db.execute("UPDATE runs SET held_until = 1 WHERE run = ?", run_id))


async def test_eight_processes_resume_one_run_and_its_tool_runs_once(tmp_path: Path) -> None:
    url, effects = f"sqlite:///{tmp_path}/runs.db", tmp_path / "effects"
    effects.touch()
    desk = Desk()
    run_id = (await Runner.run(desk.agent, "go", journal=url)).run_id
    command = [str(WORKER), url, run_id, str(effects), "never", "False"]
    go = tmp_path / "go"
    workers = [forked.Program([*command, str(go)], stdout=forked.PIPE, text=True) for _ in range(8)]
    go.touch()
    said = [worker.communicate(timeout=50)[0].strip() for worker in workers]
    assert effects.read_text().count("paid") == 1, said
    assert said.count("done") == 1, said
    assert all(word in ("done", "Conflict") for word in said), said
    assert os.path.getsize(tmp_path / "runs.db") > 0
