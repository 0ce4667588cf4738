"""`run_demo_loop`: a conversation at the keyboard, plain and streamed, in which calls that wait are asked about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyturn import Agent, function_tool, handoff, run_demo_loop
from keyturn.testing import ScriptedModel, function_call, last_user_text


@function_tool(needs_approval=True)
def pay(to: str) -> str:
    return f"paid {to}"


def answers(*lines: str) -> Callable[[str], str]:
    left = iter(lines)

    def ask(prompt: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    return ask


@pytest.mark.each
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_a_call_that_waits_is_asked_about_and_the_talk_goes_on(stream: bool) -> None:
    shown: list[str] = []
    model = ScriptedModel([[function_call("pay", {"to": "ann"})], "Paid.", "You paid Ann."])
    agent: Agent[Any] = Agent("desk", model=model, tools=[pay])
    said = answers("Pay Ann.", "a", "", "What did I do?", "exit")
    await run_demo_loop(agent, stream=stream, ask=said, show=shown.append)
    text = "".join(shown)
    assert "wants to run: pay" in text
    assert "Paid." in text
    assert "You paid Ann." in text
    assert last_user_text(model.calls[-1]) == "What did I do?"
    assert len(model.calls[-1].input) == 5, "the conversation is kept from turn to turn"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_where_nobody_decides_nothing_runs(stream: bool) -> None:
    shown: list[str] = []
    agent: Agent[Any] = Agent("desk", model=ScriptedModel([[function_call("pay", {"to": "ann"})]]), tools=[pay])
    await run_demo_loop(agent, stream=stream, ask=answers("Pay Ann.", "q"), show=shown.append)
    assert "Nothing was decided" in "".join(shown)


async def test_the_talk_goes_on_with_the_agent_it_was_handed_to() -> None:
    refunds: Agent[Any] = Agent("Refunds", model=ScriptedModel(["Refunds here.", "Still here."]))
    call = function_call("transfer_to_refunds", {})
    triage: Agent[Any] = Agent("Triage", model=ScriptedModel([[call]]), handoffs=[handoff(refunds)])
    shown: list[str] = []
    await run_demo_loop(triage, ask=answers("Refund!", "Hello?"), show=shown.append)
    assert "[agent: Refunds]" in "".join(shown)
    assert "Still here." in "".join(shown)


async def test_what_a_model_writes_cannot_act_on_the_terminal() -> None:
    shown: list[str] = []
    agent: Agent[Any] = Agent("a", model=ScriptedModel(["\x1b[2Jgone\u202e"]))
    await run_demo_loop(agent, ask=answers("hi"), show=shown.append)
    assert "\x1b" not in "".join(shown)
    assert "\\u{1b}[2Jgone" in "".join(shown)
