"""What the engine swallows on purpose is said in `keyturn.engine`, with what it cost and never with arguments."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from keyturn import Agent, FunctionTool, MemoryJournal, MemorySession, Runner, RunState, function_tool
from keyturn.core.errors import StorageError
from keyturn.testing import ScriptedModel, function_call

SECRET = "4111 1111"


def broken(*_args: Any, **_options: Any) -> Any:
    """Stand in for what a user wrote, and fail with words that no log may hold."""
    raise ValueError(SECRET)


def agent(**options: Any) -> Agent[Any]:
    """An agent that pays once."""

    @function_tool(**options)
    def pay(to: str) -> str:
        """Pay."""
        return "paid"

    return Agent("desk", model=ScriptedModel([[function_call("pay", {"to": "ann"})], "done"]), tools=[pay])


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Any:
    """What the engine logged, at whatever level."""
    caplog.set_level(logging.DEBUG, "keyturn.engine")
    yield lambda: [record.getMessage() for record in caplog.records if record.name == "keyturn.engine"]
    assert SECRET not in caplog.text


async def test_a_policy_that_raises_is_logged(logged: Any) -> None:
    result = await Runner.run(agent(), "go", policy=broken)
    assert result.interruptions
    assert logged() == ["the policy raised on 'pay', the call does not run by itself: ValueError"]


async def test_needs_approval_that_raises_is_logged(logged: Any) -> None:
    assert (await Runner.run(agent(needs_approval=broken), "go")).interruptions
    assert logged() == ["needs_approval of 'pay' raised, a person is asked: ValueError"]


async def test_a_preview_that_fails_is_logged(logged: Any) -> None:
    desk = agent(needs_approval=True)

    class Looking(FunctionTool):
        """Shows the world as it is, as a file tool does."""

        looks = True

        def preview(self, params: Any) -> Any:
            return broken(params)

    pay: Any = desk.tools[0]
    desk.tools = [Looking(pay.name, pay.description, pay.params_json_schema, pay.on_invoke_tool, needs_approval=True)]
    assert (await Runner.run(desk, "go")).interruptions
    assert logged() == ["the preview of 'pay' failed, people are shown its arguments: ValueError"]


async def test_a_probe_that_cannot_tell_is_logged(logged: Any) -> None:
    journal, desk = MemoryJournal(), agent(check=broken)
    done = await Runner.run(desk, "go", journal=journal)
    lines = await journal.read(done.run_id)
    started = next(place for place, line in enumerate(lines, 1) if b"CallStarted" in line)
    rest = MemoryJournal()
    await rest.append(done.run_id, 0, lines[:started])
    state = await RunState.load(rest, done.run_id, desk)
    assert [item.kind for item in (await Runner.run(desk, state)).interruptions] == ["in_doubt"]
    assert logged() == ["the check of 'pay' was inconclusive, a person must resolve the call: ValueError"]


async def test_a_session_that_is_not_told_of_a_stop_is_logged(logged: Any) -> None:
    class Full(MemorySession):
        async def add_items(self, items: Any) -> None:
            broken()

    with pytest.raises(ValueError, match=SECRET):
        await Runner.run(agent(needs_approval=True), "go", session=Full("s"))
    assert any("lacks its last items until it is resumed: ValueError" in line for line in logged())


async def test_a_run_that_cannot_be_given_back_is_logged(logged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal()

    async def no_release(*_args: Any) -> None:
        raise StorageError("the disk is gone")

    async def without_leases(*line: Any) -> None:
        await MemoryJournal.append(journal, *line)

    monkeypatch.setattr(journal, "release", no_release)
    monkeypatch.setattr(journal, "append", without_leases)
    result = await Runner.run(agent(), "go", journal=journal)
    assert result.final_output == "done"
    assert logged() == [f"run {result.run_id} is held until its lease runs out: StorageError: the disk is gone"]
