"""Secret arguments: redacted wherever a person or a model reads, bound and run as they are."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from keyturn import Agent, Runner, RunState, Secret, UserError, function_tool
from keyturn.models.scripted.model import ScriptedModel, assistant_message, function_call


def login_agent(done: list[tuple[str, str]]) -> tuple[Agent[Any], ScriptedModel]:
    """An agent whose one tool takes a password."""

    @function_tool(needs_approval=True)
    async def login(user: str, password: Annotated[str, Secret]) -> str:
        done.append((user, password))
        return "logged in"

    call = function_call("login", {"user": "ann", "password": "hunter2"}, call_id="c1")
    model = ScriptedModel([[call], [assistant_message("done")]])
    return Agent("a", model=model, tools=[login]), model


async def test_a_secret_shows_nowhere_and_runs_as_it_is() -> None:
    done: list[tuple[str, str]] = []
    agent, _ = login_agent(done)
    result = await Runner.run(agent, "go")
    item = result.interruptions[0]
    shown = f"{item.arguments} {item.params} {item.raw_item} {item!r} {item.preview}"
    assert "hunter2" not in shown
    assert "[redacted]" in shown
    state = await RunState.from_string(agent, result.to_state().to_string())
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state)
    assert done == [("ann", "hunter2")]


async def test_a_mark_left_in_an_edit_keeps_the_true_value_and_the_model_reads_no_secret() -> None:
    done: list[tuple[str, str]] = []
    agent, model = login_agent(done)
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], edit={"user": "bob", "password": "[redacted]"})
    await Runner.run(agent, state)
    assert done == [("bob", "hunter2")]
    told = model.calls[-1].input[-1]["output"]
    assert '"user":"bob"' in told
    assert "hunter2" not in told


async def test_a_mark_where_no_secret_stood_is_refused() -> None:
    agent, _ = login_agent([])
    state = (await Runner.run(agent, "go")).to_state()
    with pytest.raises(UserError, match="stands for a value"):
        state.approve(state.get_interruptions()[0], edit={"user": "[redacted]", "password": "new"})


async def test_a_secret_that_a_person_typed_is_not_told_to_the_model() -> None:
    done: list[tuple[str, str]] = []
    agent, model = login_agent(done)
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], edit={"user": "bob", "password": "brand new"})
    await Runner.run(agent, state)
    assert done == [("bob", "brand new")]
    assert "brand new" not in str(model.calls[-1].input)
