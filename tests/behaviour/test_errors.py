"""A provider's error stays what it is, the run goes on from where it stood, nothing runs twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import (
    Agent,
    AgentHooks,
    KeyturnError,
    ModelBehaviorError,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    ToolMissing,
    UserError,
    function_tool,
)
from tests.playing import (
    Run,
    World,
    approved,
    asked,
    asking,
    call,
    model,
    outputs,
    plain,
    shape,
    state_of,
)


class BadRequestError(Exception):
    """A provider's own error, with what a caller reads of it."""

    def __init__(self, status_code: int, body: Any) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code, self.body = status_code, body


class Sealed(Exception):
    """An exception that takes no attributes."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("sealed")


async def test_a_providers_error_is_the_very_same_object(world: World, run: Run) -> None:
    problem = BadRequestError(400, {"error": "x"})
    agent = asking(world, problem)
    with pytest.raises(BadRequestError) as raised:
        await run(agent, "go")
    assert raised.value is problem
    assert not isinstance(raised.value, KeyturnError)
    assert (raised.value.status_code, raised.value.body) == (400, {"error": "x"})
    assert raised.value.__cause__ is None


async def test_the_error_tells_how_far_the_run_came(world: World, run: Run) -> None:
    agent = asking(world, ["hm", call("free", "c1")], BadRequestError(500, None))
    with pytest.raises(BadRequestError) as raised:
        await run(agent, "go", context="ctx")
    data: Any = raised.value.run_data
    kinds = ["message_output_item", "tool_call_item", "tool_call_output_item"]
    assert [item.type for item in data.new_items] == kinds
    assert (data.input, data.last_agent, data.final_output, len(data.raw_responses)) == ("go", agent, None, 1)
    assert (data.context_wrapper.context, data.interruptions) == ("ctx", [])
    assert shape(data.to_input_list()) == ["user", "assistant", "call c1", "output c1"]


async def test_an_exception_that_takes_nothing_is_raised_all_the_same(world: World, run: Run) -> None:
    agent = asking(world, Sealed("x"), "done")
    state: RunState[Any] = RunState(None, "go", agent)
    with pytest.raises(Sealed):
        await run(agent, state)
    assert (await run(agent, state)).final_output == "done"


async def test_an_approved_tool_that_ran_is_never_repeated(world: World, run: Run, saved: bool) -> None:
    failures = [BadRequestError(500 + n, None) for n in range(3)]
    agent = asking(world, [call("ask", "c1"), call("free", "c2")], *failures, "done")
    state = await approved(await run(agent, "go"), agent, saved)
    for _ in range(3):
        with pytest.raises(BadRequestError) as raised:
            await run(agent, state)
        state = await state_of(raised.value.run_data, agent, saved)
    result = await run(agent, state)
    assert (result.final_output, sorted(world.done)) == ("done", ["ask(0)", "free(0)"])
    assert result.usage.requests == 2
    sent = [shape(request.input) for request in asked(agent)[1:]]
    assert sent == [["user", "call c1", "call c2", "output c1", "output c2"]] * 4


async def test_the_live_state_is_resumed_after_a_failure(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], OSError("one"), OSError("two"), "done")
    state = await approved(await run(agent, "go"), agent)
    for text in ("one", "two"):
        with pytest.raises(OSError, match=text):
            await run(agent, state)
    assert (await run(agent, state)).final_output == "done"
    assert world.done == ["ask(0)"]


async def test_a_failure_while_calls_wait_loses_none_of_them(world: World, run: Run, saved: bool) -> None:
    """A nested agent fails for good while its sibling's call waits: nothing of what waits is lost."""

    @function_tool(failure_error_function=None)
    async def fatal() -> str:
        raise OSError("fatal")

    agent = asking(world, [call("ask", "c1"), call("fatal", "c2")], "done")
    agent.tools.append(fatal)
    with pytest.raises(OSError, match="fatal") as raised:
        await run(agent, "go")
    failed = raised.value.run_data
    assert [item.call_id for item in failed.interruptions] == ["c1"]
    result = await run(agent, await approved(failed, agent, saved))
    assert (result.final_output, world.done) == ("done", ["ask(0)"])


MISTAKES: dict[str, list[Any]] = {
    "an unknown tool": [call("gone", "c1")],
    "no id": [{"type": "function_call", "call_id": "", "name": "free", "arguments": "{}"}],
    "one id for two calls": [call("free", "c1", x=1), call("free", "c1", x=2)],
}


@pytest.mark.parametrize("reply", MISTAKES.values(), ids=list(MISTAKES))
async def test_a_models_mistake_is_no_reply(world: World, run: Run, saved: bool, reply: list[Any]) -> None:
    agent = asking(world, [call("free", "f0"), *reply], [call("ask", "c9")], "done")
    with pytest.raises(ModelBehaviorError) as raised:
        await run(agent, "go")
    assert (world.done, raised.value.run_data.new_items) == ([], [])
    result = await run(agent, await state_of(raised.value.run_data, agent, saved))
    result = await run(agent, await approved(result, agent, saved))
    assert (result.final_output, world.done) == ("done", ["ask(0)"])
    assert result.usage.requests == result.context_wrapper.usage.requests == 3  # it is no reply, and it was paid for


async def test_an_unknown_tool_may_be_told_to_the_model(world: World, run: Run) -> None:
    agent = asking(world, [call("gone", "c1"), call("free", "c2")], "done")
    config = RunConfig(tool_not_found_behavior="return_error_to_model")
    result = await run(agent, "go", run_config=config)
    assert (result.final_output, world.done) == ("done", ["free(0)"])
    assert "gone" in outputs(result.to_input_list())["c1"]


async def test_the_words_for_an_unknown_tool_may_be_the_users(world: World, run: Run) -> None:
    def words(args: Any) -> str | None:
        return f"{args.kind}: {args.tool_name}" if args.kind == "tool_not_found" else None

    agent = asking(world, [call("gone", "c1")], "done")
    config = RunConfig(tool_not_found_behavior="return_error_to_model", tool_error_formatter=words)
    result = await run(agent, "go", run_config=config)
    assert outputs(result.to_input_list()) == {"c1": "tool_not_found: gone"}


async def test_a_tool_that_is_gone_at_resume(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state = await approved(await run(agent, "go"), agent, saved)
    tools, agent.tools = agent.tools, []
    with pytest.raises(ToolMissing) as raised:
        await run(agent, state)
    assert (raised.value.tool_name, world.done) == ("ask", [])
    agent.tools = tools
    assert (await run(agent, state)).final_output == "done"
    assert world.done == ["ask(0)"]


async def test_callbacks_that_raise_leave_the_run_resumable(world: World, run: Run) -> None:
    """Instructions, filters and formatters are the user's code: their errors are the caller's, and nothing is lost."""
    broken = [True]

    def sometimes(*_args: Any) -> Any:
        if broken:
            broken.clear()
            raise LookupError("mine")
        return "Be brief."

    agent = asking(world, [call("ask", "c1")], "done")
    agent.instructions = sometimes
    with pytest.raises(LookupError, match="mine") as raised:
        await run(agent, "go")
    result = await run(agent, raised.value.run_data.to_state())
    broken.append(True)
    config = RunConfig(tool_error_formatter=sometimes)
    state = result.to_state()
    state.reject(state.get_interruptions()[0])
    agent.instructions = None
    with pytest.raises(LookupError, match="mine"):
        await run(agent, state, run_config=config)
    result = await run(agent, state, run_config=config)
    assert (result.final_output, world.done) == ("done", [])
    assert outputs(result.to_input_list()) == {"c1": "Be brief."}


async def test_is_enabled_that_raises_leaves_the_run_resumable(world: World, run: Run) -> None:
    broken = [True]

    def enabled(_context: Any, _agent: Any) -> bool:
        if broken:
            broken.clear()
            raise LookupError("mine")
        return True

    agent = Agent("a", model=model([call("free", "c1")], "done"), tools=[world.tool("free", is_enabled=enabled)])
    with pytest.raises(LookupError) as raised:
        await run(agent, "go")
    assert (await run(agent, raised.value.run_data.to_state())).final_output == "done"


async def test_errors_about_states_and_calls_quote_nothing(world: World, run: Run) -> None:
    secret = "4111111111111111"
    agent = asking(world, [call("ask", "c1", x=int(secret))], "done")
    state = await approved(await run(agent, secret), agent)
    agent.tools = []
    with pytest.raises(ToolMissing) as raised:
        await run(agent, state)
    assert secret not in str(raised.value)
    with pytest.raises(UserError) as refused:
        state.approve(object())
    assert secret not in str(refused.value)


async def test_what_is_no_agent_and_no_input_is_refused(world: World) -> None:
    with pytest.raises(UserError, match="Agent"):
        await plain("agent", "go")
    for given in (None, 7, {"role": "user"}):
        with pytest.raises(UserError, match="input"):
            await plain(asking(world, "hi"), given)
    with pytest.raises(UserError, match="AgentHooks belong"):
        await plain(asking(world, "hi"), "go", hooks=AgentHooks())
    with pytest.raises(UserError, match="get_items"):
        await plain(asking(world, "hi"), "go", session="s1")
    with pytest.raises(UserError, match="RunConfig has no setting"):
        await plain(asking(world, "hi"), "go", run_config={"polcy": 1})


async def test_input_that_is_no_json_is_refused_before_anything_happens(world: World, run: Run) -> None:
    agent = asking(world, "hi")
    with pytest.raises(UserError, match="JSON"):
        await run(agent, [{"role": "user", "content": object()}])
    assert asked(agent) == []


async def test_a_reply_with_an_odd_item_is_kept_verbatim(world: World, run: Run) -> None:
    """What a provider invents tomorrow is carried, not understood."""
    odd = {"type": "mood", "id": "m1", "value": [1, None, {"deep": True}]}
    reason = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA=="}
    agent = asking(world, [odd, reason, call("ask", "c1")], "done")
    result = await run(agent, await approved(await run(agent, "go"), agent, saved=True))
    assert asked(agent)[1].input[1:3] == [odd, reason]
    assert result.to_input_list()[1:3] == [odd, reason]


@pytest.mark.parametrize("arguments", [None, "[]", "null", "{", '{"x": 1, "x": 2}'])
async def test_arguments_that_are_none_never_run(world: World, run: Run, arguments: Any) -> None:
    reply = [{"type": "function_call", "call_id": "c1", "name": "ask", "arguments": arguments}]
    agent = asking(world, reply, "done")
    try:
        result = await run(agent, "go")
    except ModelBehaviorError:
        assert world.done == []
        return
    if result.interruptions:  # nothing at all counts as no arguments, and the defaults are what is shown
        assert (arguments, result.interruptions[0].params) == (None, {"x": 0})
        return
    assert "invalid" in outputs(result.to_input_list())["c1"]
    assert world.done == []


async def test_a_failing_listener_of_the_run_is_the_callers(world: World, run: Run) -> None:
    class Broken(RunHooks[Any]):
        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            raise RuntimeError("no")

    agent = asking(world, [call("free", "c1")], "done")
    with pytest.raises(RuntimeError) as raised:
        await run(agent, "go", hooks=Broken())
    result = await run(agent, raised.value.run_data.to_state())
    assert (result.final_output, world.done) == ("done", ["free(0)"])


@pytest.mark.trial
async def test_many_runs_at_once_with_failures_among_them(world: World) -> None:
    async def one(n: int) -> Any:
        steps = [[call("free", "c", x=n)], OSError(str(n))] if n % 3 == 0 else [[call("free", "c", x=n)], str(n)]
        return (await Runner.run(asking(world, *steps), "go")).final_output

    ended = await asyncio.gather(*(one(n) for n in range(30)), return_exceptions=True)
    assert [str(end) for end in ended] == [str(n) for n in range(30)]
    assert sorted(world.done) == sorted(f"free({n})" for n in range(30))
