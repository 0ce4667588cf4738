"""The errand of the pause scenario: pay two people, with a person's word for each, over any provider's wire format.

What the requests were is asserted beside each member; here is the agent, the way there, and the ways to run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyturn import Agent, ModelSettings, RunResult, RunState, function_tool
from keyturn.models.scripted.items import assistant_message, function_call, reasoning
from tests.playing import through_text

ASKED = "Pay ada and bob."
THOUGHT = 'Two payments — 東京 \U0001f511, each "asked" for.\n'
DONE = "Both are paid."

PAY = {
    "additionalProperties": False,
    "properties": {"to": {"title": "To", "type": "string"}, "euros": {"title": "Euros", "type": "integer"}},
    "required": ["to", "euros"],
    "title": "pay_args",
    "type": "object",
}


@function_tool(needs_approval=True)
def pay(to: str, euros: int) -> str:
    """Pay somebody."""
    return f"paid {to} {euros}"


def script(*labels: str) -> list[list[Any]]:
    """What the model says: a thought, a word, two calls at once; then that it is done."""
    calls = [
        function_call("pay", {"to": to, "euros": euros}, call_id=label)
        for (to, euros), label in zip([("ada", 5), ("bob", 7)], labels, strict=True)
    ]
    return [[reasoning(THOUGHT), assistant_message("I need your word."), *calls], [assistant_message(DONE)]]


def errand(model: Any, **settings: Any) -> Agent[Any]:
    """The agent on its errand."""
    return Agent("Errand", instructions="Be brief.", model=model, tools=[pay], model_settings=ModelSettings(**settings))


async def decided(agent: Agent[Any], paused: RunResult) -> RunState[Any]:
    """The pause saved as a text, loaded in what may be another process, bob refused and ada approved."""
    state = await through_text(agent, paused)
    ada, bob = state.get_interruptions()
    state.reject(bob, rejection_message="Not bob.")
    state.approve(ada)
    return state


def without(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A request's body but for some of its keys."""
    return {name: value for name, value in body.items() if name not in names}
