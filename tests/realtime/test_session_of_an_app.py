"""A realtime session of an app has what the app was given, or refuses it; the app stays open as long as it lasts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    GuardrailFunctionOutput,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    ToolExecutionConfig,
    UserError,
    function_tool,
    input_guardrail,
    output_guardrail,
)
from keyturn.realtime import RealtimeAgent, RealtimeRunner
from tests.realtime.attending import OwnModel, talking_to
from tests.realtime.desk import support, weather
from tests.waiting import until


@function_tool
def resources(context: RunContextWrapper[Any]) -> str:
    """Tell what the app opened."""
    return str(context.resources)


@output_guardrail
def no_secret(_context: Any, _agent: Any, said: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(None, "SECRET" in said)


@input_guardrail
def polite(_context: Any, _agent: Any, _said: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(None, tripwire_triggered=False)


async def test_the_hooks_and_output_guardrails_of_an_app_hold_in_its_sessions() -> None:
    heard: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, _context: Any, _agent: Any, tool: Any) -> None:
            heard.append(tool.name)

    agent, model = support(weather), OwnModel()
    config = RunConfig(output_guardrails=[no_secret])
    app = App([agent], "memory://", worker=False, hooks=Hooks(), run_config=config)
    async with talking_to(model, agent, app=app) as (_session, told):
        await model.calls("weather")
        await told.until("tool_end")
        await model.says("The SECRET is 42")
        assert (await told.until("guardrail_tripped")).message == "The SECRET is 42"
    assert heard == ["weather"]


SETTINGS: dict[str, Any] = {
    "input_guardrails": [polite],
    "call_model_input_filter": lambda data: data.model_data,
    "handoff_input_filter": lambda data: data,
    "nest_handoff_history": True,
    "handoff_history_mapper": lambda items: items,
}


@pytest.mark.parametrize("name", SETTINGS)
async def test_settings_of_an_app_that_have_no_effect_in_a_session_are_refused(name: str) -> None:
    agent = support(weather)
    app = App([agent], "memory://", worker=False)
    runner = RealtimeRunner(agent, model=OwnModel(), app=app)
    app.run_config = RunConfig(**{name: SETTINGS[name]})
    with pytest.raises(UserError, match=f"RunConfig.{name}=.* has no effect in a realtime session"):
        await runner.run()


async def test_how_tools_are_run_is_what_the_app_says_where_the_session_says_nothing_else() -> None:
    agent = support(weather)
    given = RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))
    app = App([agent], "memory://", worker=False, run_config=given)
    config: Any = {"tool_execution": {"pre_approval_tool_input_guardrails": True}}
    async with talking_to(OwnModel(), agent, app=app, config=config) as (session, _told):
        assert session.opened().scope.config.tool_execution == ToolExecutionConfig(1, True)


@pytest.mark.parametrize("known", [Agent("Support"), RealtimeAgent("Other")], ids=["a plain one", "another"])
async def test_an_agent_that_the_app_does_not_have_is_refused(known: Any) -> None:
    runner = RealtimeRunner(support(weather), model=OwnModel(), app=App([known], "memory://", worker=False))
    with pytest.raises(UserError, match="this app has no RealtimeAgent 'Support'"):
        await runner.run()


async def test_a_context_that_would_not_come_back_is_refused_as_where_a_run_is_started() -> None:
    """A worker that carried a late decision out would have given the tool None in its place."""

    class Customer:
        pass

    agent = support(weather)
    runner = RealtimeRunner(agent, model=OwnModel(), app=App([agent], "memory://", worker=False))
    with pytest.raises(UserError, match="Customer"):
        await runner.run(context=Customer())
    async with await runner.run(context={"customer": 17}) as session:
        await session.close(end=False)
    async with await runner.run(resume=session.run_id) as again:
        assert again.opened().live.context.context == {"customer": 17}


async def test_an_app_stays_open_for_its_sessions_and_is_closed_with_the_last_of_them() -> None:
    log: list[str] = []

    @asynccontextmanager
    async def lifespan(_app: Any) -> AsyncGenerator[str]:
        log.append("opened")
        yield "the database"
        log.append("closed")

    agent, model = support(resources), OwnModel()
    app = App([agent], "memory://", worker=False, lifespan=lifespan)
    async with talking_to(model, agent, app=app):
        async with app:
            pass
        await model.calls("resources")
        await until(lambda: ("c1", "the database") in model.outputs())
        assert log == ["opened"]
    assert log == ["opened", "closed"]
