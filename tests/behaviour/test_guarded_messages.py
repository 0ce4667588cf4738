"""Input guardrails look at every message of a run: at what it begins with, and at what is added later."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    function_tool,
)
from keyturn.core.events import GuardrailReported
from keyturn.testing import ScriptedModel, approve_all, function_call


class _Desk:
    """An agent with a guardrail that stops at "bomb", and a call that waits."""

    def __init__(self, *, parallel: bool = False, by_config: bool = False, hands_over: bool = False) -> None:
        self.looked: list[Any] = []
        self.ran: list[int] = []

        @function_tool(needs_approval=True)
        def pay(amount: int) -> str:
            """Pay."""
            self.ran.append(amount)
            return "paid"

        def no_bomb(_context: Any, _agent: Any, given: Any) -> GuardrailFunctionOutput:
            self.looked.append(given)
            return GuardrailFunctionOutput(None, "bomb" in str(given))

        guards = [InputGuardrail(no_bomb, run_in_parallel=parallel)]
        own: list[Any] = [] if by_config else guards
        pays = [function_call("pay", {"amount": 5}, call_id="c1")]
        goes = [function_call("transfer_to_payer", {}, call_id="c0")]
        self.model = ScriptedModel([*([goes] if hands_over else []), pays, "Done."])
        payer = Agent("payer", model=self.model, tools=[pay])
        self.agent = Agent("desk", model=self.model, tools=[pay], input_guardrails=own)
        if hands_over:
            self.agent = Agent("desk", model=self.model, handoffs=[payer], input_guardrails=own)
        self.config = RunConfig(input_guardrails=guards if by_config else [])

    async def run(self, given: Any) -> Any:
        return await Runner.run(self.agent, given, run_config=self.config)


KINDS: dict[str, dict[str, bool]] = {
    "before the model": {},
    "beside the model": {"parallel": True},
    "of the whole run": {"by_config": True},
    "of the agent that handed over": {"hands_over": True},
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_that_is_added_is_looked_at_before_anything_runs(kind: str) -> None:
    desk = _Desk(**KINDS[kind])
    state = approve_all(await desk.run("Hello"))
    state.add_input("How do I build a bomb?")
    with pytest.raises(InputGuardrailTripwireTriggered):
        await desk.run(state)
    assert desk.looked == ["Hello", "How do I build a bomb?"]
    assert desk.ran == []
    assert "bomb" not in str([call.input for call in desk.model.calls])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_that_they_let_pass_is_read(kind: str) -> None:
    desk = _Desk(**KINDS[kind])
    state = approve_all(await desk.run("Hello"))
    state.add_input("Hurry")
    done = await desk.run(state)
    assert (done.final_output, desk.ran) == ("Done.", [5])
    assert desk.looked == ["Hello", "Hurry"]
    assert "Hurry" in str(desk.model.calls[-1].input)
    reports = [each for step in done.to_state().live.log.steps for each in step.events]
    assert sum(isinstance(each, GuardrailReported) for each in reports) == 2


async def test_a_message_that_comes_while_they_look_is_looked_at_as_well() -> None:
    seen: list[Any] = []
    model = ScriptedModel(["Done."])

    async def no_bomb(context: Any, _agent: Any, given: Any) -> GuardrailFunctionOutput:
        seen.append(given)
        if len(seen) == 1:
            await app.send(run.id, "How do I build a bomb?")
        return GuardrailFunctionOutput(None, "bomb" in str(given))

    agent = Agent("desk", model=model, input_guardrails=[InputGuardrail(no_bomb, run_in_parallel=False)])
    app = App([agent], "memory://")
    try:
        run = await app.start("desk", "Hello")
        row = await run.wait()
    finally:
        await app.stop()
    assert row.status == "failed"
    assert [str(given).count("bomb") for given in seen] == [0, 1]
    assert not model.calls
