"""What a span may say: no argument, output or message unless the user says so, and a secret never."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from keyturn import (
    Agent,
    App,
    RunConfig,
    RunHooks,
    Runner,
    Secret,
    ToolExecutionConfig,
    function_tool,
    tool_input_guardrail,
)
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.tools.base import OutcomeUnknown
from tests.playing import Run, approved
from tests.tracing.watching import Seen, of

# No word that the hexadecimal ids of spans could have in them.
WORDS = ("hunter2", "lovelace", "let me in", "Be a doorman", "welcome", "she is in")


def doorman() -> Agent[Any]:
    @function_tool(needs_approval=True)
    async def login(user: str, password: Annotated[str, Secret]) -> str:
        """Log in."""
        return "she is in"

    call = function_call("login", {"user": "lovelace", "password": "hunter2"}, call_id="c1")
    return Agent("Door", instructions="Be a doorman", model=ScriptedModel([[call], "welcome"]), tools=[login])


async def play(run: Run, seen: Seen, **settings: Any) -> None:
    agent = doorman()
    paused = await run(agent, "let me in", run_config=seen.config(**settings))
    result = await run(agent, await approved(paused, agent, saved=True), run_config=seen.config(**settings))
    assert result.final_output == "welcome"


async def test_nothing_is_told_by_default(run: Run, seen: Seen) -> None:
    assert RunConfig().trace_include_sensitive_data is False
    await play(run, seen)
    assert len(seen.spans) == 9
    assert [word for word in WORDS if word in seen.text()] == []


async def test_what_is_told_is_in_the_form_of_the_conventions_and_holds_no_secret(run: Run, seen: Seen) -> None:
    await play(run, seen, trace_include_sensitive_data=True)
    assert "hunter2" not in seen.text()
    tool = of(seen.one("execute_tool login"))
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"user": "lovelace", "password": "[redacted]"}
    assert tool["gen_ai.tool.call.result"] == "she is in"
    first, second = (of(span) for span in seen.spans if span.name.startswith("chat"))
    shown = {"user": "lovelace", "password": "[redacted]"}
    call = {"type": "tool_call", "id": "c1", "name": "login", "arguments": shown}
    assert json.loads(first["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be a doorman"}]
    assert json.loads(first["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [call], "finish_reason": "tool_call"}
    ]
    assert json.loads(second["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "let me in"}]},
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "she is in"}]},
    ]


async def test_a_call_of_a_tool_that_nobody_knows_shows_no_arguments(run: Run, seen: Seen) -> None:
    history = [
        {"type": "function_call", "call_id": "c0", "name": "gone", "arguments": '{"password":"hunter2"}'},
        {"type": "function_call_output", "call_id": "c0", "output": "ok"},
        {"role": "user", "content": "go on"},
    ]
    agent = Agent("Door", model=ScriptedModel(["done"]))
    await run(agent, history, run_config=seen.config(trace_include_sensitive_data=True))
    [message, *_rest] = json.loads(of(seen.one("chat scripted"))["gen_ai.input.messages"])
    assert message["parts"][0]["arguments"] == "[redacted]"
    assert "hunter2" not in seen.text()


async def test_the_secrets_of_another_agents_tool_stay_secret_after_a_handoff(run: Run, seen: Seen) -> None:
    @function_tool
    async def login(password: Annotated[str, Secret]) -> str:
        return "in"

    expert = Agent("Expert", model=ScriptedModel(["done"]))
    calls = [[function_call("login", {"password": "hunter2"})], [function_call("transfer_to_expert", {})]]
    door = Agent("Door", model=ScriptedModel(calls), tools=[login], handoffs=[expert])
    await run(door, "go", run_config=seen.config(trace_include_sensitive_data=True))
    assert "[redacted]" in seen.text()
    assert "hunter2" not in seen.text()


def with_expert(**settings: Any) -> Agent[Any]:
    """An agent whose expert, under settings of its own, calls a tool that asks."""

    @function_tool(needs_approval=True)
    async def dig(place: str) -> str:
        return "found in the cellar"

    expert = Agent("Expert", model=ScriptedModel([[function_call("dig", {"place": "attic"})], "secretly"]), tools=[dig])
    tool = expert.as_tool("ask_expert", "Asks.", run_config=RunConfig(**settings))
    return Agent("Door", model=ScriptedModel([[function_call("ask_expert", {"input": "where"})], "done"]), tools=[tool])


async def through_a_pause(run: Run, agent: Agent[Any], config: RunConfig) -> Any:
    """Run, approve what the expert asks, and run on."""
    paused = await run(agent, "go", run_config=config)
    state = paused.to_state()
    state.approve(state.get_interruptions()[0], by="ann", note="the note")
    return await run(agent, state, run_config=config)


async def test_an_agent_tool_that_includes_no_data_has_none_in_its_spans(run: Run, seen: Seen) -> None:
    agent = with_expert(trace_include_sensitive_data=False)
    await through_a_pause(run, agent, seen.config(trace_include_sensitive_data=True))
    assert "execute_tool dig" in {span.name for span in seen.spans}
    assert not [word for word in ("attic", "cellar", "the note") if word in seen.text()]
    assert "where" in seen.text(), "the call that asks it is of the agent above"


async def test_an_agent_tool_includes_no_data_below_a_run_that_does_not(run: Run, seen: Seen) -> None:
    agent = with_expert(trace_include_sensitive_data=True)
    await through_a_pause(run, agent, seen.config())
    assert not [word for word in ("attic", "cellar", "the note", "where") if word in seen.text()]


async def test_an_agent_tool_without_tracing_has_no_spans(run: Run, seen: Seen) -> None:
    agent = with_expert(tracing_disabled=True, trace_include_sensitive_data=True)
    await through_a_pause(run, agent, seen.config(trace_include_sensitive_data=True))
    names = {span.name for span in seen.spans}
    assert not [name for name in names if "dig" in name or "Expert" in name]
    assert "execute_tool ask_expert" in names
    assert len(seen.named("chat scripted")) == 2, "those of the agent above"
    assert not [word for word in ("attic", "cellar", "the note") if word in seen.text()]


async def test_a_text_that_no_exporter_could_write_is_mended(seen: Seen) -> None:
    agent = Agent("Door", model=ScriptedModel(["done"]))
    await Runner.run(agent, "half \ud800 a character", run_config=seen.config(trace_include_sensitive_data=True))
    assert "half ? a character" in of(seen.one("chat scripted"))["gen_ai.input.messages"]


def raising(error: type[Exception]) -> Any:
    """A tool that quotes its arguments in what it raises."""

    async def login(user: str, password: Annotated[str, Secret]) -> str:
        raise error(f"cannot log {user} in with {password}")

    return login


@tool_input_guardrail
def quoting(data: Any) -> Any:
    """Quote the arguments in what is raised."""
    raise ValueError(f"not allowed: {data.context.tool_arguments}")


class Quoting(RunHooks[Any]):
    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        raise ValueError(f"not allowed: {context.tool_arguments}")


GUARDED = {"tool_input_guardrails": [quoting]}
EARLY = {"tool_execution": ToolExecutionConfig(pre_approval_tool_input_guardrails=True)}


@pytest.mark.parametrize(
    ("error", "tool", "settings", "hooks"),
    [
        (ValueError, {}, {}, None),
        (ValueError, {"failure_error_function": None}, {}, None),
        (OutcomeUnknown, {}, {}, None),
        (ValueError, GUARDED, {}, None),
        (ValueError, {**GUARDED, "needs_approval": True}, EARLY, None),
        (ValueError, {}, {}, Quoting()),
    ],
    ids=["a tool", "a fatal tool", "a tool in doubt", "a guardrail", "a guardrail before the approval", "a hook"],
)
async def test_a_secret_that_is_quoted_in_an_error_is_in_no_trace_and_no_record(
    error: Any, tool: Any, settings: Any, hooks: Any, seen: Seen
) -> None:
    login: Any = function_tool(raising(error), name_override="login", **tool)
    call = function_call("login", {"user": "lovelace", "password": "hunter2"}, call_id="c1")
    agent = Agent("Door", model=ScriptedModel([[call], "welcome"]), tools=[login])
    app = App([agent], "memory://", run_config=seen.config(trace_include_sensitive_data=True, **settings), hooks=hooks)
    async with app:
        run = await app.start("Door", "let me in")
        row = await run.wait()
        waits = [each.reason for each in await app.inbox.list()]
    assert "lovelace" in seen.text()
    assert "hunter2" not in seen.text()
    assert "hunter2" not in row.error + "".join(waits)
