"""A question for a person keeps the promises of the room of tools, where somebody is at hand who answers it.

What it asks and which answers it takes is tested beside it; here it is one more kind of tool that may have to be
approved before it asks.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from keyturn import Agent, RunState, ask_user
from keyturn.core.items import Item
from keyturn.engine.views.items import ToolApprovalItem
from keyturn.models.scripted.model import function_call
from keyturn.testing import ToolSuite
from keyturn.testing.crash import Answer, Effects, Scenario
from keyturn.testing.crash import sweep as swept
from keyturn.testing.suites import tools as suite

ANSWER = "As you like."


class TestAskUser(ToolSuite):
    """What happens is that a person is asked."""

    @pytest.fixture(autouse=True)
    def person(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In a crash sweep too, whoever decides answers what is asked."""

        async def sweep(scenario: Scenario, *, streamed: bool) -> Any:
            def decide(item: ToolApprovalItem) -> Any:
                return Answer(ANSWER) if item.kind == "external" else scenario.decide(item)

            return await swept(dataclasses.replace(scenario, decide=decide), streamed=streamed)

        monkeypatch.setattr(suite, "sweep", sweep)

    def run(self, agent: Agent[Any], given: Any) -> Any:
        result = super().run(agent, given)
        while any(item.kind == "external" for item in result.interruptions):
            state: RunState[Any] = given if isinstance(given, RunState) else result.to_state()
            for item in state.get_interruptions():
                if item.kind == "external":
                    state.answer(item, ANSWER)
            result = super().run(agent, state)
        return result

    def make_tool(self, effects: Effects, needs_approval: Any = False) -> Any:
        tool = ask_user()
        tool.needs_approval, invoke = needs_approval, tool.invoke

        async def recording(context: Any, prepared: Any) -> Any:
            if context.resumed is None:
                effects.record(context, prepared.params["question"])
            return await invoke(context, prepared)

        tool.invoke = recording  # type: ignore[method-assign]  # the test watches what it does
        return tool

    def call(self, label: str, variant: int = 0) -> Item:
        return function_call("ask_user", {"question": f"Question {variant}?"}, call_id=label)

    def edited(self) -> dict[str, Any]:
        return {"question": "Question 1?"}
