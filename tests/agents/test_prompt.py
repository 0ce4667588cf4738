"""Instructions and prompts: text, or functions of the run, sync or async."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.agents.agent import Agent
from keyturn.agents.context import RunContextWrapper
from keyturn.core.errors import UserError

CONTEXT = RunContextWrapper({"user": "ann"})


async def instructed(instructions: Any) -> str | None:
    return await Agent(name="a", instructions=instructions).get_system_prompt(CONTEXT)


async def test_text_is_the_system_prompt() -> None:
    assert await instructed("Be brief.") == "Be brief."
    assert await instructed(None) is None


async def test_a_function_gets_context_and_agent() -> None:
    async def later(context: Any, agent: Any) -> str:
        return f"{context.context['user']} speaks to {agent.name}"

    class Callable:
        def __call__(self, context: Any, agent: Any) -> str:
            return agent.name

    assert await instructed(lambda context, agent: agent.name) == "a"
    assert await instructed(later) == "ann speaks to a"
    assert await instructed(Callable()) == "a"
    assert await instructed(lambda context, agent, tone="dry": tone) == "dry"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: "x", r"got 0: \[\]"),
        (lambda context: "x", r"got 1: \['context'\]"),
        (lambda context, agent, more: "x", r"got 3: \['context', 'agent', 'more'\]"),
    ],
)
async def test_any_other_number_of_arguments_is_a_type_error(function: Any, said: str) -> None:
    with pytest.raises(TypeError, match=r"must accept exactly 2 arguments \(context, agent\), but " + said):
        await instructed(function)


async def test_the_function_is_looked_at_again_when_it_is_replaced() -> None:
    agent: Agent[Any] = Agent(name="a", instructions=lambda context, agent: "one")
    assert await agent.get_system_prompt(CONTEXT) == "one"
    assert await agent.get_system_prompt(CONTEXT) == "one"
    agent.instructions = lambda context: "two"
    with pytest.raises(TypeError):
        await agent.get_system_prompt(CONTEXT)


async def test_a_prompt_is_completed() -> None:
    async def choose(data: Any) -> Any:
        return {"id": f"p-{data.agent.name}-{data.context.context['user']}", "variables": {"x": "1"}}

    assert await Agent(name="a").get_prompt(CONTEXT) is None
    fixed: Any = Agent(name="a", prompt={"id": "p", "version": "2"})
    assert await fixed.get_prompt(CONTEXT) == {"id": "p", "version": "2", "variables": None}
    chosen = {"id": "p-a-ann", "version": None, "variables": {"x": "1"}}
    assert await Agent(name="a", prompt=choose).get_prompt(CONTEXT) == chosen


@pytest.mark.parametrize("made", [None, "p", {"version": "1"}, {"id": 3}])
async def test_a_prompt_without_an_id_is_refused(made: Any) -> None:
    with pytest.raises(UserError, match="the prompt of agent 'a' must be a mapping with the prompt's 'id'"):
        await Agent(name="a", prompt=lambda data: made).get_prompt(CONTEXT)
