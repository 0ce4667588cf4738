"""A failure is seen: a tool that raises is logged whatever its model is told, and a run that failed says why."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import pytest

from keyturn import Agent, AgentHooks, App, MemoryJournal, RunHooks, Runner, RunStopped, function_tool
from keyturn.core.errors import AgentMissing
from keyturn.core.events import RunResumed
from keyturn.engine.run import log_cache
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
        with pytest.raises(RunStopped, match="failed: OSError: the provider is down; fix the cause and") as raised:
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


async def stopped(agent: Agent[Any], **kept: Any) -> tuple[RunStopped, Any]:
    """The error and the row of a run of an app that failed."""
    async with App([agent], MemoryJournal()) as app:
        handle = await app.start("desk", "go", **kept)
        with pytest.raises(RunStopped) as raised:
            await handle.result(20)
        return raised.value, await app.get(handle.id)


@function_tool(failure_error_function=None)
async def pay_or_stop(account: str) -> str:
    """Pay, or stop the run."""
    raise ValueError(f"no account {account}")


async def test_a_failed_run_keeps_where_it_was_raised() -> None:
    error, row = await stopped(agent_of(pay_or_stop, account="A-1"))
    assert error.error == row.error == "ValueError: no account A-1"
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert "in pay_or_stop" in error.traceback
    assert "run_tool.py" not in error.traceback
    assert error.traceback.endswith("ValueError: no account A-1")


async def test_a_traceback_keeps_no_words_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYTURN_DONT_LOG_TOOL_DATA", "1")
    error, row = await stopped(agent_of(pay_or_stop, account="A-1"))
    assert error.error == row.error == "ValueError"
    assert "in pay_or_stop" in error.traceback
    assert error.traceback.endswith("\nValueError")
    assert "A-1" not in error.traceback


class Quoting(RunHooks[Any]):
    """Hooks that fail and quote the arguments."""

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        raise RuntimeError(f"will not do {context.tool_arguments!r}, {[context.tool_arguments]}")


class QuotingAgent(AgentHooks[Any]):
    """The same, when it is over."""

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        raise RuntimeError(f"did {context.tool_arguments}")


@pytest.mark.parametrize("allowed", ["0", "1"])
async def test_a_traceback_keeps_no_secret(
    allowed: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYTURN_DONT_LOG_TOOL_DATA", allowed)
    caplog.set_level(logging.DEBUG)

    @function_tool
    async def log_in_quietly(user: str, password: Annotated[str, Secret]) -> str:
        """Log in."""
        return "in"

    def quote(_context: Any, error: Exception) -> str:
        raise RuntimeError("in other words") from error

    @function_tool(failure_error_function=quote)
    async def log_in_and_quote(user: str, password: Annotated[str, Secret]) -> str:
        """Log in."""
        raise PermissionError(f"{user}: {password}")

    @function_tool(failure_error_function=None)
    async def log_in_by_bytes(user: str, password: Annotated[str, Secret]) -> str:
        """Log in."""
        raise ExceptionGroup("refused", [ValueError(password.encode()), KeyError(repr({"password": password}))])

    quoted = agent_of(log_in_quietly, user="ann", password=SECRET)
    quoted.hooks = QuotingAgent()
    for agent in (
        quoted,
        agent_of(log_in_or_stop, user="ann", password=SECRET),
        agent_of(log_in_and_quote, user="ann", password=SECRET),
        agent_of(log_in_by_bytes, user="ann", password=SECRET),
    ):
        error, row = await stopped(agent)
        assert error.traceback
        assert "hunter2" not in error.traceback + row.error + str(error) + caplog.text


async def test_a_hook_of_the_run_that_quotes_leaks_nothing(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    from keyturn.engine.logger import failure_trace, failure_words

    with pytest.raises(RuntimeError) as raised:
        await run(agent_of(log_in, user="ann", password=SECRET), "go", hooks=Quoting())
    kept = failure_trace(raised.value) + failure_words(raised.value)
    assert "will not do" in kept
    assert repr(SECRET) not in kept
    assert "hunter2" not in kept + caplog.text


async def test_a_run_that_goes_on_forgets_why_it_failed() -> None:
    agent = Agent("desk", model=ScriptedModel([OSError("down"), "done"]))
    async with App([agent], MemoryJournal()) as app:
        handle = await app.start("desk", "go")
        await until_status(app, handle.id, "failed")
        assert (await app.state(handle.id)).live.run.traceback.endswith("OSError: down")
        await app.resume(handle.id)
        resumed = [event for step in (await log_cache.log_in(app.journal, handle.id)).steps for event in step.events]
        assert [event.decider for event in resumed if isinstance(event, RunResumed)] == [None], "no person is named"
        assert (await handle.result(20)).final_output == "done"
        assert (await app.state(handle.id)).live.run.traceback == ""


async def test_an_odd_error_is_kept_as_far_as_it_can_be(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "keyturn.worker")  # half a character cannot stand in a report of tests

    class Odd(Exception):
        def __str__(self) -> str:
            raise TypeError("no words")

    for problem in (Odd(), ValueError("\ud800"), ValueError("x" * 100_000)):
        error, _ = await stopped(Agent("desk", model=ScriptedModel([problem])))
        assert error.error.startswith(type(problem).__name__)
        assert 0 < len(error.traceback) < 17_000


async def test_an_app_names_the_agents_that_it_has() -> None:
    app = App([agent_of(pay, account="A-1")], MemoryJournal(), worker=False)
    with pytest.raises(AgentMissing, match="this app has no agent 'dsk'; it has: desk"):
        await app.start("dsk", "go")


async def test_a_wait_that_takes_too_long_says_how_far_the_run_is() -> None:
    app = App([agent_of(pay, account="A-1")], MemoryJournal(), worker=False)
    handle = await app.start("desk", "go")
    with pytest.raises(TimeoutError, match=r"was running after 0\.01 s and continues"):
        await handle.wait(0.01)
