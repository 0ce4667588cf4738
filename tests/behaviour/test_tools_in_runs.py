"""Tools as a run meets them: timeouts, limits, errors of every kind, and whatever they may return."""

from __future__ import annotations

import asyncio
import datetime
import signal
import threading
from decimal import Decimal
from typing import Any

import pytest

from keyturn import (
    Agent,
    FunctionTool,
    RunConfig,
    RunState,
    ToolContext,
    ToolExecutionConfig,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    ToolTimeoutError,
    UserError,
    function_tool,
)
from tests.playing import (
    Run,
    World,
    approved,
    asked,
    call,
    model,
    outputs,
    plain,
    state_of,
)
from tests.waiting import never, turns_of_the_loop, until

DEFAULT = "An error occurred while running the tool. Please try again."


def with_tool(tool: Any, *rounds: Any) -> Agent[Any]:
    return Agent("a", model=model(*(rounds or ([call(tool.name, "c1")], "done"))), tools=[tool])


# Time.
async def test_an_async_tool_that_is_too_slow_is_told_to_the_model(world: World, run: Run, saved: bool) -> None:
    @function_tool(timeout=0.02, needs_approval=True)
    async def slow() -> str:
        try:
            await never()
        finally:
            world.done.append("stopped")
        return "never"

    agent = with_tool(slow)
    result = await run(agent, await approved(await run(agent, "go"), agent, saved))
    assert (result.final_output, world.done) == ("done", ["stopped"])
    assert outputs(result.to_input_list()) == {"c1": "Tool 'slow' timed out after 0.02 seconds."}


async def test_its_own_words_for_a_timeout(run: Run) -> None:
    async def words(context: Any, error: Exception) -> str:
        assert isinstance(error, ToolTimeoutError)
        return f"{context.tool_name} took more than {error.timeout_seconds}"

    @function_tool(timeout=0.02, timeout_error_function=words)
    async def slow() -> str:
        await never()
        return "never"

    result = await run(with_tool(slow), "go")
    assert outputs(result.to_input_list()) == {"c1": "slow took more than 0.02"}


async def test_a_timeout_may_stop_the_run_which_can_be_resumed(world: World, run: Run, saved: bool) -> None:
    @function_tool(timeout=0.02, timeout_behavior="raise_exception")
    async def slow() -> str:
        world.done.append("slow")
        await never()
        return "never"

    agent = with_tool(slow)
    with pytest.raises(ToolTimeoutError) as raised:
        await run(agent, "go")
    result = await run(agent, await state_of(raised.value.run_data, agent, saved))
    assert (result.final_output, world.done) == ("done", ["slow"])


async def test_a_thread_that_cannot_be_stopped_leaves_its_call_in_doubt(world: World, run: Run, saved: bool) -> None:
    let_go = threading.Event()

    @function_tool(timeout=0.02, needs_approval=True)
    def slow() -> str:
        let_go.wait(5)
        world.done.append("slow")
        return "late"

    agent = with_tool(slow)
    result = await run(agent, await approved(await run(agent, "go"), agent, saved))
    [item] = result.interruptions
    assert (item.kind, item.call_id, item.tool_name) == ("in_doubt", "c1", "slow")
    let_go.set()
    await until(lambda: world.done)
    state = await state_of(result, agent, saved)
    state.resolve(state.get_interruptions()[0], "ran", "it was late but fine")
    result = await run(agent, state)
    assert outputs(result.to_input_list()) == {"c1": "it was late but fine"}
    assert world.done == ["slow"]


async def test_a_reading_thread_that_is_too_slow_is_only_told(run: Run) -> None:
    let_go = threading.Event()

    @function_tool(timeout=0.02, read_only=True)
    def slow() -> str:
        let_go.wait(5)
        return "late"

    result = await run(with_tool(slow), "go")
    let_go.set()
    assert "timed out" in outputs(result.to_input_list())["c1"]


async def test_an_idempotent_thread_that_is_too_slow_is_not_run_for_ever(world: World, run: Run) -> None:
    let_go = threading.Event()

    @function_tool(timeout=0.02, idempotent=True)
    def slow() -> str:
        world.done.append("slow")
        let_go.wait(5)
        return "late"

    agent = with_tool(slow)
    result = await asyncio.wait_for(run(agent, "go"), 3)
    let_go.set()
    assert result.interruptions or result.final_output == "done"
    assert world.done == ["slow"]


async def test_a_tool_within_its_time(run: Run) -> None:
    @function_tool(timeout=5)
    def quick() -> str:
        return "in time"

    @function_tool(timeout=5)
    async def quick_too() -> str:
        raise TimeoutError("my own")

    agent = Agent("a", model=model([call("quick", "c1"), call("quick_too", "c2")], "done"), tools=[quick, quick_too])
    assert outputs((await run(agent, "go")).to_input_list()) == {"c1": "in time", "c2": DEFAULT}


# How many at once.
@pytest.mark.parametrize("limit", [1, 2, None])
async def test_a_limit_of_tools_at_once(run: Run, limit: int | None) -> None:
    at_once: list[int] = [0, 0]

    @function_tool
    async def busy(n: int) -> str:
        at_once[0] += 1
        at_once[1] = max(at_once)
        await until(lambda: at_once[1] >= (limit or 6))
        await turns_of_the_loop(20)
        at_once[0] -= 1
        return str(n)

    agent = with_tool(busy, [call("busy", f"c{n}", n=n) for n in range(6)], "done")
    config = RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=limit))
    result = await run(agent, "go", run_config=config)
    assert outputs(result.to_input_list()) == {f"c{n}": str(n) for n in range(6)}
    assert at_once[1] == (limit or 6)


async def test_a_limit_of_one_does_not_lock_nested_agents_out(world: World, run: Run) -> None:
    inner = Agent("inner", model=model([call("free", "i1"), call("free", "i2")], "inside"), tools=[world.tool("free")])
    calls = [call("inner", "o1", input="x"), call("free", "o2")]
    agent = Agent("outer", model=model(calls, "done"), tools=[inner.as_tool("inner", "a"), world.tool("free")])
    config = RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))
    result = await asyncio.wait_for(run(agent, "go", run_config=config), 5)
    assert (result.final_output, world.count("free(0)")) == ("done", 3)


async def test_sync_tools_do_not_block_one_another() -> None:
    gate = threading.Barrier(3, timeout=5)

    @function_tool
    def meet() -> int:
        return gate.wait()

    result = await plain(with_tool(meet, [call("meet", f"c{n}") for n in range(3)], "done"), "go")
    assert sorted(outputs(result.to_input_list()).values()) == ["0", "1", "2"]


# Errors.
async def test_a_tool_that_raises_is_told_without_its_text(world: World, run: Run, saved: bool) -> None:
    @function_tool(needs_approval=True)
    def boom() -> str:
        world.done.append("boom")
        raise ValueError("password=hunter2")

    agent = with_tool(boom)
    result = await run(agent, await approved(await run(agent, "go"), agent, saved))
    assert (result.final_output, world.done) == ("done", ["boom"])
    assert outputs(result.to_input_list()) == {"c1": DEFAULT}
    assert "hunter2" not in result.to_state().to_string()


async def test_its_own_words_for_an_error(run: Run) -> None:
    async def later(context: ToolContext[Any], error: Exception) -> str:
        return f"{context.tool_name} {context.tool_call_id}: {error}"

    for words in (later, lambda context, error: f"{context.tool_name} {context.tool_call_id}: {error}"):

        @function_tool(failure_error_function=words)
        def boom() -> str:
            raise ValueError("told on purpose")

        result = await run(with_tool(boom), "go")
        assert outputs(result.to_input_list()) == {"c1": "boom c1: told on purpose"}


async def test_an_error_that_stops_the_run_is_the_tools_own(world: World, run: Run, saved: bool) -> None:
    problem = ValueError("mine")

    @function_tool(failure_error_function=None, needs_approval=True)
    def boom() -> str:
        world.done.append("boom")
        raise problem

    agent = with_tool(boom)
    state = await approved(await run(agent, "go"), agent, saved)
    with pytest.raises(ValueError, match="mine") as raised:
        await run(agent, state)
    assert raised.value.__cause__ is problem
    result = await run(agent, await state_of(raised.value.run_data, agent, saved))
    assert (result.final_output, world.done) == ("done", ["boom"])
    assert outputs(result.to_input_list()) == {"c1": DEFAULT}


async def test_words_that_raise_stop_the_run_and_the_tool_does_not_run_again(world: World, run: Run) -> None:
    def words(_context: Any, error: Exception) -> str:
        raise KeyError("no words")

    @function_tool(failure_error_function=words)
    def boom() -> str:
        world.done.append("boom")
        raise ValueError("x")

    agent = with_tool(boom)
    with pytest.raises(KeyError) as raised:
        await run(agent, "go")
    result = await run(agent, raised.value.run_data.to_state())
    assert (result.final_output, world.done) == ("done", ["boom"])


class Odd(BaseException):
    """An exception that is no `Exception`."""


_POISON = (SystemExit(3), KeyboardInterrupt(), Odd("x"), GeneratorExit(), asyncio.CancelledError())


@pytest.mark.parametrize(
    ("threaded", "problem"),
    [
        *((False, problem) for problem in _POISON),
        *((True, problem) for problem in _POISON),
        (True, StopIteration("x")),  # a coroutine turns it into a RuntimeError by itself
    ],
)
async def test_no_exception_of_a_tool_takes_the_run_down(
    world: World, run: Run, threaded: bool, problem: BaseException
) -> None:
    """Whatever it raises is its result."""

    def boom() -> str:
        world.done.append("boom")
        raise problem

    async def async_boom() -> str:
        return boom()

    tool = function_tool(boom if threaded else async_boom, name_override="boom")
    other = world.tool("free")
    agent = Agent("a", model=model([call("boom", "c1"), call("free", "c2")], "done"), tools=[tool, other])
    result = await run(agent, "go")
    assert result.final_output == "done"
    assert outputs(result.to_input_list()) == {"c1": DEFAULT, "c2": "free(0)"}
    assert sorted(world.done) == ["boom", "free(0)"]


def test_an_interrupt_from_the_keyboard_stops_everything_and_leaves_a_doubt(world: World) -> None:
    @function_tool
    async def stopped() -> str:
        world.done.append("stopped")
        signal.raise_signal(signal.SIGINT)  # as Ctrl-C does; `raise KeyboardInterrupt` is an error of the call
        await turns_of_the_loop(1)

    agent = with_tool(stopped)
    state: RunState[Any] = RunState(None, "go", agent)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(plain(agent, state))
    result = asyncio.run(plain(agent, state))
    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    assert world.done == ["stopped"]


async def test_one_failing_tool_does_not_stop_the_others(world: World, run: Run) -> None:
    failed = asyncio.Event()

    @function_tool(failure_error_function=None)
    async def boom() -> str:
        failed.set()
        raise ValueError("fatal")

    @function_tool
    async def slow() -> str:
        await failed.wait()
        await turns_of_the_loop(20)
        world.done.append("slow")
        return "slow"

    agent = Agent("a", model=model([call("boom", "c1"), call("slow", "c2")], "done"), tools=[boom, slow])
    with pytest.raises(ValueError, match="fatal") as raised:
        await run(agent, "go")
    assert world.done == ["slow"]
    result = await run(agent, raised.value.run_data.to_state())
    assert outputs(result.to_input_list()) == {"c1": DEFAULT, "c2": "slow"}
    assert world.done == ["slow"]


# What comes back.


class Silent:
    """Something that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Spoken:
    def __str__(self) -> str:
        return "spoken"


def circle() -> Any:
    made: list[Any] = []
    made.append(made)
    return made


RETURNS: dict[str, tuple[Any, Any]] = {
    "none": (None, "None"),
    "number": (3, "3"),
    "float": (float("nan"), "nan"),
    "bytes": (b"\xff\x00", "b'\\xff\\x00'"),
    "dict": ({"a": [1]}, "{'a': [1]}"),
    "keys": ({1: "x", None: "y"}, "{1: 'x', None: 'y'}"),
    "set": ({1}, "{1}"),
    "decimal": (Decimal("1.10"), "1.10"),
    "date": (datetime.date(2030, 1, 31), "2030-01-31"),
    "object": (Spoken(), "spoken"),
    "silent": (Silent(), None),
    "circle": (circle(), "[[...]]"),
    "surrogate": ("a\ud800b", "a?b"),
    "nul": ("a\x00b", "a\x00b"),
    "empty": ("", ""),
    "exception": (ValueError("v"), "v"),
    "function": (len, "<built-in function len>"),
    "huge int": (10**5000, None),
    "deep": (eval("[" * 90 + "]" * 90), None),
}


@pytest.mark.parametrize(("value", "text"), RETURNS.values(), ids=list(RETURNS))
async def test_whatever_a_tool_returns_is_recorded_once(world: World, run: Run, value: Any, text: str | None) -> None:
    async def give(_context: Any, _arguments: str) -> Any:
        world.done.append("give")
        return value

    tool = FunctionTool("give", "gives", {"type": "object", "properties": {}}, give)
    ask = world.tool("ask", needs_approval=True)
    agent = Agent("a", model=model([call("give", "c1")], [call("ask", "c2")], "done"), tools=[tool, ask])
    result = await run(agent, "go")
    told = outputs(result.to_input_list())["c1"]
    assert told == text if text is not None else isinstance(told, str) and told
    if value is None:
        assert [item.output for item in result.new_items if item.type == "tool_call_output_item"] == [None]
    result = await run(agent, await approved(result, agent, saved=True))
    assert (result.final_output, world.done) == ("done", ["give", "ask(0)"])
    assert outputs(result.to_input_list())["c1"] == told


@pytest.mark.parametrize(("shape", "size"), [("text", 10), ("dict", 10), ("list", 10), ("bytes", 10)])
async def test_many_megabytes_are_cut_in_plain_sight(world: World, shape: str, size: int) -> None:
    huge = "x" * (size * 1_000_000)
    values: dict[str, Any] = {"text": huge, "dict": {"all": huge}, "list": [huge], "bytes": huge.encode()}

    async def give(_context: Any, _arguments: str) -> Any:
        world.done.append("give")
        return values[shape]

    tool = FunctionTool("give", "gives", {"type": "object", "properties": {}}, give)
    ask = world.tool("ask", needs_approval=True)
    agent = Agent("a", model=model([call("give", "c1")], [call("ask", "c2")], "done"), tools=[tool, ask])
    result = await plain(agent, "go")
    told = outputs(result.to_input_list())["c1"]
    assert len(told) < 2_000_000
    assert "cut here" in told
    assert len(result.to_state().to_string()) < 10_000_000
    result = await plain(agent, await approved(result, agent, saved=True))
    assert (result.final_output, world.done) == ("done", ["give", "ask(0)"])


async def test_a_tool_may_return_images_and_files(run: Run, saved: bool) -> None:
    @function_tool(needs_approval=True)
    def look() -> Any:
        return [
            ToolOutputText(text="see"),
            ToolOutputImage(image_url="https://x/y.png"),
            ToolOutputFileContent(file_id="f"),
        ]

    agent = with_tool(look)
    result = await run(agent, await approved(await run(agent, "go"), agent, saved))
    told = outputs(asked(agent)[-1].input)["c1"]
    assert [part["type"] for part in told] == ["input_text", "input_image", "input_file"]
    assert result.final_output == "done"


async def test_what_a_tool_returned_is_its_items_output(run: Run) -> None:
    @function_tool
    def give() -> dict[str, int]:
        return {"n": 1}

    result = await run(with_tool(give), "go")
    [item] = [item for item in result.new_items if item.type == "tool_call_output_item"]
    assert (item.output, item.raw_item.output, item.raw_item["call_id"]) == ({"n": 1}, "{'n': 1}", "c1")


async def test_a_tool_knows_its_call(run: Run) -> None:
    seen: list[Any] = []

    @function_tool(needs_approval=True)
    def look(context: ToolContext[Any], x: int) -> str:
        seen.append((context.tool_name, context.tool_call_id, context.tool_arguments, context.agent.name))
        seen.append((context.approval.by if context.approval else None, context.run_id, bool(context.idempotency_key)))
        return "seen"

    agent = with_tool(look, [call("look", "c1", x=1)], "done")
    state = (await run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], by="ann", note="fine")
    result = await run(agent, state)
    assert seen == [("look", "c1", '{"x":1}', "a"), ("ann", result.run_id, True)]


async def test_half_a_character_does_not_cost_the_run(world: World, run: Run) -> None:
    """A text that was cut inside a character, from the user, the model or a person: the state is saved all the same."""
    tool = world.tool("ask", needs_approval=True)
    agent = Agent("a", model=model(["half \ud83d", call("ask", "c1")], "end \ud83d"), tools=[tool])
    result = await run(agent, "go \ud83d")
    state = await state_of(result, agent, True)
    with pytest.raises(UserError, match="half a character"):  # L1: who writes it can still mend it
        state.reject(state.get_interruptions()[0], rejection_message="no \ud83d")
    state.reject(state.get_interruptions()[0], rejection_message="no")
    result = await run(agent, state)
    assert result.final_output == "end \ud83d"
    again = await run(agent, await state_of(result, agent, True))
    assert (again.final_output, outputs(again.to_input_list())) == ("end ?", {"c1": "no"})
    assert world.done == []
