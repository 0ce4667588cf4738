"""States: kept in files, within limits, in step with a server and a session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyturn import (
    Agent,
    FunctionTool,
    MaxTurnsExceeded,
    Runner,
    RunState,
    SQLiteSession,
)
from keyturn.testing import ModelStep, ScriptedModel, approve_all
from tests.playing import Run, read
from tests.seeds.conftest import sale


@pytest.mark.parametrize("form", ["json", "string"])
async def test_a_state_is_kept_in_a_file(
    run: Run, sell: FunctionTool, sold: list[str], tmp_path: Path, form: str
) -> None:
    model = ScriptedModel([[sale("A1"), sale("A2")], [sale("A3")], "Three seats."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    path = tmp_path / "state.json"
    result = await run(agent, "Three seats")
    while result.interruptions:
        state = result.to_state()
        if form == "json":
            with path.open("w") as f:
                json.dump(state.to_json(), f)
            with path.open() as f:
                state = await RunState.from_json(agent, json.load(f))
        else:
            path.write_text(state.to_string())
            state = await RunState.from_string(agent, path.read_text())
        assert len(state.get_interruptions()) == len(result.interruptions)
        approve_all(state)
        result = await run(agent, state)
    assert (result.final_output, sorted(sold)) == ("Three seats.", ["A1", "A2", "A3"])


async def test_usage_and_turns_go_on(sell: FunctionTool) -> None:
    def agent() -> Agent[Any]:
        model = ScriptedModel([[sale("A1")], [sale("A2")], "Done."])
        return Agent(name="Box office", model=model, tools=[sell])

    plain = agent()
    result = await Runner.run(plain, "Two seats")
    for requests in (1, 2):
        assert result.context_wrapper.usage.requests == requests
        state = await RunState.from_string(plain, result.to_state().to_string())
        assert state.usage.requests == requests
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(plain, state)
    assert (result.final_output, result.usage.requests) == ("Done.", 3)

    listened = agent()
    stream = Runner.run_streamed(listened, "Two seats")
    for turn in (1, 2):
        await read(stream)
        assert (stream.current_turn, stream.context_wrapper.usage.requests) == (turn, turn)
        state = await RunState.from_string(listened, stream.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        stream = Runner.run_streamed(listened, state)
    await read(stream)
    assert (stream.current_turn, stream.final_output) == (3, "Done.")
    assert stream.context_wrapper.usage.requests == 3


@pytest.mark.parametrize("saved", [False, True], ids=["live", "saved"])
async def test_the_turn_limit_holds_over_a_pause(run: Run, sell: FunctionTool, sold: list[str], saved: bool) -> None:
    agent = Agent(name="Box office", model=ScriptedModel([[sale("A1")], [sale("A2")], "Done."]), tools=[sell])
    result = await run(agent, "Two seats", max_turns=2)
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await run(agent, state)
    state = result.to_state()
    state.approve(result.interruptions[0])
    if saved:
        state = await RunState.from_string(agent, state.to_string())
    with pytest.raises(MaxTurnsExceeded):
        await run(agent, state)
    assert sold == ["A1"], "with the turns spent nothing more is done"
    result = await run(agent, state, max_turns=3)
    assert (result.final_output, sold) == ("Done.", ["A1", "A2"])


@pytest.mark.parametrize("name", ["previous_response_id", "conversation_id"])
async def test_only_news_goes_to_the_server(run: Run, sell: FunctionTool, name: str) -> None:
    steps = [ModelStep([sale("A1")], response_id="r1"), ModelStep([sale("A2")], response_id="r2"), ModelStep("Done.")]
    model = ScriptedModel(steps)
    agent = Agent(name="Box office", model=model, tools=[sell])
    result = await run(agent, "Two seats", **{name: "before"})
    for _ in range(2):
        state = await RunState.from_string(agent, result.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        result = await run(agent, state)
    assert result.final_output == "Done."
    ids = [getattr(asked, name) for asked in model.calls]
    assert ids == (["before"] * 3 if name == "conversation_id" else ["before", "r1", "r2"])
    sent = [[item.get("call_id") or item["content"] for item in asked.input] for asked in model.calls]
    assert sent == [["Two seats"], ["A1"], ["A2"]]


async def test_a_session_holds_each_item_once(run: Run, sell: FunctionTool, tmp_path: Path) -> None:
    model = ScriptedModel([[sale("A1")], "Sold.", "Your seat is A1."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    session = SQLiteSession("visitor", tmp_path / "visitors.db")
    result = await run(agent, "A seat", session=session)
    state = await RunState.from_string(agent, result.to_state().to_string())
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state, session=session)
    result = await run(agent, "Which one was it?", session=session)
    assert result.final_output == "Your seat is A1."
    kinds = [item.get("type", item.get("role")) for item in await session.get_items()]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user", "message"]
    session.close()
