"""Calls that wait for an answer, cut at every commit: nothing is lost, and nothing is done twice."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, NeedsInput, ToolContext, function_tool
from keyturn.core.events import CallNeeds
from keyturn.testing import Answer
from keyturn.testing.crash import Effects as Counted
from keyturn.testing.crash import Scenario, play, sweep
from tests.playing import call, script


def books(call_id: str, room: str = "blue") -> Any:
    return call("book", call_id, room=room)


def crashing(rounds: int, **options: Any) -> Scenario:
    """A tool that acts once it was told all, or in each of its rounds where to do so again does no harm."""

    def build(done: Counted) -> Agent[Any]:
        async def book(context: ToolContext[Any], room: str) -> Any:
            """Book a room."""
            resumed = context.resumed
            answers = [] if resumed is None else [*resumed.state, resumed.answers]
            asks = len(answers) < rounds and not (resumed and resumed.refused)
            if not asks or "idempotent" in options:
                done.record(context, f"{room} {answers}")
            if asks:
                return NeedsInput({"question": len(answers)}, answers)
            return f"booked {room}: {answers}"

        tools = [function_tool(book, **options)]
        return Agent("a", model=script([books("c1"), books("c2", "red")], [books("c3", "green")], "done"), tools=tools)

    def say(item: Any) -> Any:
        if item.kind == "approval":
            return {"room": "pink"} if item.params["room"] == "blue" else True
        return False if item.params["room"] == "green" else Answer(f"answer {item.requests['question']}")

    return Scenario(f"{rounds} rounds, {options}", build, decide=say)


@pytest.mark.parametrize("options", [{}, {"needs_approval": True}, {"idempotent": True}], ids=str)
@pytest.mark.parametrize("rounds", [1, 2])
async def test_no_crash_loses_or_doubles_anything(rounds: int, options: Any, streamed: bool) -> None:
    scenario = crashing(rounds, **options)
    report = await sweep(scenario, streamed=streamed)
    assert report.cuts > 10
    assert bool(report.doubts) == ("idempotent" not in options)
    assert not report.violations, "\n".join(report.violations)


@pytest.mark.parametrize("saved", [False, True])
async def test_a_scenario_with_questions_is_played_to_its_end(saved: bool) -> None:
    outcome = await play(crashing(2), saved=saved)
    assert (
        outcome.output,
        len([event for step in outcome.log.steps for event in step.events if isinstance(event, CallNeeds)]),
    ) == (
        "done",
        5,
    )
