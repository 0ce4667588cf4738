"""What people decided on a tool holds while keys are rotated, though what is secret in the tool is marked by a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, Grant, Inbox, LocalExecutor, MemoryJournal, Runner, RunState, ShellTool
from keyturn.audit.checker import check
from keyturn.directory.people import People
from keyturn.journal.sqlite import SQLiteJournal
from tests.playing import call, model
from tests.table import each

OLD, NEW = "an-old-secret" * 3, "a-new-secret" * 3
#: What a process has before the rotation, while the others are rotated one after the other, and after it.
BEFORE, FIRST, LATER = (OLD, ""), (OLD, NEW), (NEW, OLD)


def _keys(patch: pytest.MonkeyPatch, keys: tuple[str, str]) -> None:
    patch.setenv("KEYTURN_SECRET", keys[0])
    patch.setenv("KEYTURN_SECRETS_OLD", keys[1])


def _desk(folder: Path, *replies: Any, stage: str = "prod") -> Agent[Any]:
    def asks(_context: Any, action: Any, _call: str) -> bool:
        return "danger" in str(action)

    shell = ShellTool(executor=LocalExecutor(folder, env={"STAGE": stage}), needs_approval=asks)
    return Agent("desk", model=model(*replies), tools=[shell])


def _runs(name: str) -> Any:
    return call("shell", name, commands=[f"echo danger > {name}"])


@each("keys", [(BEFORE, LATER), (FIRST, LATER), (LATER, FIRST)])
async def test_an_approval_holds_under_another_newest_key(keys: Any, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _keys(patch, keys[0])
        first = await Runner.run(_desk(tmp_path, [_runs("one")]), "go")
        state = first.to_state()
        state.approve(first.interruptions[0])
        text = state.to_string()
        _keys(patch, keys[1])
        agent = _desk(tmp_path, "done")
        done = await Runner.run(agent, await RunState.from_string(agent, text))
        assert (done.final_output, (tmp_path / "one").exists()) == ("done", True)
        (tmp_path / "one").unlink()


async def test_an_approval_is_void_where_a_value_of_the_environment_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _keys(monkeypatch, FIRST)
    first = await Runner.run(_desk(tmp_path, [_runs("one")]), "go")
    state = first.to_state()
    state.approve(first.interruptions[0])
    text = state.to_string()
    _keys(monkeypatch, LATER)
    agent = _desk(tmp_path, "done", stage="test")
    asked = await Runner.run(agent, await RunState.from_string(agent, text))
    assert [item.name for item in asked.interruptions] == ["shell"]
    assert not (tmp_path / "one").exists()


async def test_a_standing_rejection_holds_under_another_newest_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _keys(monkeypatch, BEFORE)
    first = await Runner.run(_desk(tmp_path, [_runs("one")]), "go")
    state = first.to_state()
    state.reject(first.interruptions[0], always_reject=True)
    text = state.to_string()
    _keys(monkeypatch, LATER)
    agent = _desk(tmp_path, [call("shell", "c2", commands=["echo harmless > two"])], "done")
    done = await Runner.run(agent, await RunState.from_string(agent, text))
    assert done.final_output == "done"
    assert not (tmp_path / "two").exists(), "ann said never again"


def _by_policy(_call: Any, _context: object) -> str:
    return "ask"


@each("options", [{}, {"policy": _by_policy}])
@each("keys", [(BEFORE, LATER), (FIRST, LATER), (LATER, FIRST)])
async def test_a_grant_for_other_runs_holds_under_another_newest_key(
    keys: Any, options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = MemoryJournal()
    _keys(monkeypatch, keys[0])
    first = await Runner.run(_desk(tmp_path, [_runs("one")]), "go", journal=journal, **options)
    row = await Inbox(journal).get(first.interruptions[0].request.id)
    await Inbox(journal).approve(row, by="ann", grant=Grant(scope="agent"))
    _keys(monkeypatch, keys[1])
    done = await Runner.run(_desk(tmp_path, [_runs("two")], "done"), "go", journal=journal, **options)
    assert (done.final_output, (tmp_path / "two").exists()) == ("done", True)
    (tmp_path / "two").unlink()
    other = _desk(tmp_path, [_runs("three")], "done", stage="test")
    asked = await Runner.run(other, "go", journal=journal, **options)
    assert [item.name for item in asked.interruptions] == ["shell"], "it is for the environment that was shown"
    assert (await check(journal)).ok


async def test_the_code_of_an_address_is_accepted_by_a_process_with_another_newest_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _keys(monkeypatch, FIRST)
    journal = SQLiteJournal(tmp_path / "runs.db")
    people = App([], journal).people
    await people.start("ada")
    await people.add("bob", by="ada")
    await people.set_address("bob", "slack", "U0BOB", by="bob")
    code = await people.address_code("bob", "slack")
    _keys(monkeypatch, LATER)
    assert await people.address_code("bob", "slack") != code
    await People(journal).confirm_address("bob", "slack", code, by="bob")
    await journal.close()
