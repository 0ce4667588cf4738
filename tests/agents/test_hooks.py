"""Hooks do nothing unless somebody says otherwise, under the names that users know."""

from __future__ import annotations

import inspect

import pytest

from keyturn.agents.context import RunContextWrapper
from keyturn.agents.hooks import AgentHooks, AgentHooksBase, RunHooks, RunHooksBase
from keyturn.models.base import ModelResponse

CONTEXT = RunContextWrapper(None)
RUN = {
    "on_llm_start": ("context", "agent", "system_prompt", "input_items"),
    "on_llm_end": ("context", "agent", "response"),
    "on_agent_start": ("context", "agent"),
    "on_agent_end": ("context", "agent", "output"),
    "on_handoff": ("context", "from_agent", "to_agent"),
    "on_tool_start": ("context", "agent", "tool"),
    "on_tool_end": ("context", "agent", "tool", "result"),
    "on_tool_error": ("context", "agent", "tool", "error"),
}
AGENT = {
    "on_start": ("context", "agent"),
    "on_end": ("context", "agent", "output"),
    "on_handoff": ("context", "agent", "source"),
    "on_tool_start": ("context", "agent", "tool"),
    "on_tool_end": ("context", "agent", "tool", "result"),
    "on_tool_error": ("context", "agent", "tool", "error"),
    "on_llm_start": ("context", "agent", "system_prompt", "input_items"),
    "on_llm_end": ("context", "agent", "response"),
}


@pytest.mark.parametrize(("hooks", "methods"), [(RunHooks, RUN), (AgentHooks, AGENT)])
def test_signatures_are_the_known_ones(hooks: type, methods: dict[str, tuple[str, ...]]) -> None:
    found = {name for name in vars(hooks) if name.startswith("on_")}
    assert found == set(methods)
    for name, parameters in methods.items():
        assert tuple(inspect.signature(getattr(hooks, name)).parameters)[1:] == parameters


@pytest.mark.parametrize(("hooks", "methods"), [(RunHooks(), RUN), (AgentHooks(), AGENT)])
async def test_each_does_nothing_by_default(hooks: object, methods: dict[str, tuple[str, ...]]) -> None:
    values = {"context": CONTEXT, "response": ModelResponse([])}
    for name, parameters in methods.items():
        assert await getattr(hooks, name)(*(values.get(parameter) for parameter in parameters)) is None


def test_they_can_be_subclassed_bare_and_with_types() -> None:
    class Bare(RunHooks): ...

    class Typed(RunHooks[int]): ...

    class Both(RunHooksBase[int, str]): ...

    class Agents(AgentHooks[int]): ...

    assert all(issubclass(kind, RunHooksBase) for kind in (Bare, Typed, Both))
    assert issubclass(Agents, AgentHooksBase)
