"""A failure is seen: a tool that raises is logged whatever its model is told, and a run that failed says why."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import pytest

from keyturn import Agent, AgentHooks, App, MemoryJournal, RunHooks, Runner, RunStopped, function_tool
from keyturn.core.errors import AgentMissing
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.tools.base import ToolProblem
from keyturn.tools.functions.schema import Secret
from tests.playing import Run
from tests.waiting import until_status

SECRET = 'hunter2"\\ü'
PLAIN = "An error occurred while running the tool. Please try again."


@function_tool
async def pay(account: str) -> str:
    """Pay."""
    raise ValueError(f"no account {account}")


@function_tool
async def log_in(user: str, password: Annotated[str, Secret]) -> str:
    """Log in."""
    raise PermissionError(f"{user} is refused with {password!r} ({password})")


@function_tool(failure_error_function=None)
async def log_in_or_stop(user: str, password: Annotated[str, Secret]) -> str:
    """Log in, or stop the run."""
    raise PermissionError(f"{user} is refused with {password!r}")


def agent_of(tool: Any, **arguments: Any) -> Agent[Any]:
    model = ScriptedModel([function_call(tool.name, arguments, call_id="c1"), "done"])
    return Agent("desk", model=model, tools=[tool])


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "keyturn.tools"]


def outputs(result: Any) -> list[Any]:
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


async def test_what_a_tool_raises_is_logged_with_its_traceback(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    result = await run(agent_of(pay, account="A-1"), "go")
    assert outputs(result) == [PLAIN]
    [record] = told(caplog)
    said = record.getMessage()
    assert record.levelname == "WARNING"
    assert said.startswith(f"tool 'pay' of agent 'desk' raised in run {result.run_id}, call c1\nTraceback")
    assert "in pay" in said
    assert "run_tool.py" not in said, "where the engine calls tools is of no use to anybody"
    assert said.endswith("ValueError: no account A-1")


def test_the_traceback_of_a_script_holds_the_tools_error_alone(caplog: pytest.LogCaptureFixture) -> None:
    Runner.run_sync(agent_of(pay, account="A-1"), "go")
    [record] = told(caplog)
    assert "ValueError: no account A-1" in record.getMessage()
    assert "event loop" not in record.getMessage()


async def test_a_secret_argument_is_nowhere_in_the_log(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    await run(agent_of(log_in, user="ann", password=SECRET), "go")
    [record] = told(caplog)
    assert "ann is refused with" in record.getMessage()
    assert "[redacted]" in record.getMessage()
    assert all(part not in caplog.text for part in (SECRET, repr(SECRET), "hunter2"))


async def test_the_words_of_errors_stay_out_where_that_is_wanted(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYTURN_DONT_LOG_TOOL_DATA", "1")
    await run(agent_of(pay, account="A-1"), "go")
    [record] = told(caplog)
    assert record.getMessage().endswith("ValueError")
    assert "in pay" in record.getMessage()
    assert "A-1" not in caplog.text


async def test_what_a_tool_means_for_its_model_is_a_line(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    @function_tool
    async def look(at: str) -> str:
        """Look."""
        raise ToolProblem("there is nothing")

    caplog.set_level(logging.INFO, "keyturn.tools")
    assert outputs(await run(agent_of(look, at="it"), "go")) == ["there is nothing"]
    [record] = told(caplog)
    assert (record.levelname, "Traceback" in record.getMessage()) == ("INFO", False)


async def test_hooks_are_told_of_the_error_itself(run: Run) -> None:
    heard: list[tuple[str, str, str]] = []

    class Watch(RunHooks[Any]):
        async def on_tool_error(self, context: Any, agent: Any, tool: Any, error: BaseException) -> None:
            heard.append(("run", tool.name, str(error)))

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append(("end", tool.name, str(result)))

    class WatchAgent(AgentHooks[Any]):
        async def on_tool_error(self, context: Any, agent: Any, tool: Any, error: BaseException) -> None:
            heard.append(("agent", context.tool_call_id, type(error).__name__))

    desk = agent_of(pay, account="A-1")
    desk.hooks = WatchAgent()
    await run(desk, "go", hooks=Watch())
    assert heard == [("run", "pay", "no account A-1"), ("agent", "c1", "ValueError"), ("end", "pay", PLAIN)]


async def test_a_nested_agent_that_fails_is_logged_as_the_tool_that_it_is(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    inner = Agent("inner", model=ScriptedModel([OSError("the provider is down")]))
    tool = inner.as_tool(tool_name="research", tool_description="Look into it.")
    result = await run(agent_of(tool, input="why"), "go")
    assert result.final_output == "done"
    [record] = told(caplog)
    assert record.getMessage().startswith("tool 'research' of agent 'desk' raised")
    assert "OSError: the provider is down" in record.getMessage()


async def test_a_failed_run_of_an_app_says_why_everywhere_once(caplog: pytest.LogCaptureFixture) -> None:
    broken = Agent("desk", model=ScriptedModel([OSError("the provider is down")]))
    async with App([broken], MemoryJournal()) as app:
        handle = await app.start("desk", "go")
        with pytest.raises(RunStopped, match="failed: OSError: the provider is down; mend the cause and") as raised:
            await handle.result(20)
        assert raised.value.error == "OSError: the provider is down"
        assert (await app.get(handle.id)).error == "OSError: the provider is down"
    records = [record for record in caplog.records if record.name == "keyturn.worker"]
    assert [record.getMessage() for record in records] == [
        f"run {handle.id} of agent 'desk' stopped: OSError: the provider is down"
    ]
    assert records[0].exc_info is not None


async def test_a_failed_run_keeps_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with App([agent_of(log_in_or_stop, user="ann", password=SECRET)], MemoryJournal()) as app:
        handle = await app.start("desk", "go")
        row = await until_status(app, handle.id, "failed")
    assert row.error.startswith("PermissionError: ann is refused with")
    assert "hunter2" not in row.error
    assert "hunter2" not in caplog.text


async def test_what_is_raised_in_place_of_an_error_keeps_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    def quote(_context: Any, error: Exception) -> str:
        raise RuntimeError(f"in other words: {error}")

    @function_tool(failure_error_function=quote)
    async def log_in_and_quote(user: str, password: Annotated[str, Secret]) -> str:
        """Log in."""
        raise ExceptionGroup("several", [PermissionError(f"{user}: {password}")])

    caplog.set_level(logging.DEBUG)
    two_lines = "hunter2-first\nhunter2-second"
    async with App([agent_of(log_in_and_quote, user="ann", password=two_lines)], MemoryJournal()) as app:
        handle = await app.start("desk", "go")
        row = await until_status(app, handle.id, "failed")
    assert row.error.startswith("RuntimeError: in other words")
    assert "hunter2" not in row.error + caplog.text


async def test_a_secret_below_a_nested_agent_stays_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    inner = agent_of(log_in_or_stop, user="ann", password=SECRET)
    tool = inner.as_tool(tool_name="research", tool_description="Look into it.")
    async with App([agent_of(tool, input="why")], MemoryJournal()) as app:
        handle = await app.start("desk", "go")
        await handle.result(20)
    assert len(told(caplog)) == 2
    assert "hunter2" not in caplog.text


async def test_an_app_names_the_agents_that_it_has() -> None:
    app = App([agent_of(pay, account="A-1")], MemoryJournal(), worker=False)
    with pytest.raises(AgentMissing, match="this app has no agent 'dsk'; it has: desk"):
        await app.start("dsk", "go")


async def test_a_wait_that_takes_too_long_says_how_far_the_run_is() -> None:
    app = App([agent_of(pay, account="A-1")], MemoryJournal(), worker=False)
    handle = await app.start("desk", "go")
    with pytest.raises(TimeoutError, match=r"was running after 0\.01 s and goes on"):
        await handle.wait(0.01)
