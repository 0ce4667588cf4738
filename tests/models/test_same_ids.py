"""Over every wire format the provider's call id is a label: used twice it is one call, misbehaviour, or a new call."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, ModelBehaviorError, ModelSettings
from keyturn.models.scripted.items import function_call
from keyturn.testing import approve_all
from tests.models.test_crossing import MEMBERS, model_of
from tests.playing import play

members = pytest.mark.parametrize("member", MEMBERS.values(), ids=list(MEMBERS))


def pay(to: str) -> Any:
    return function_call("pay", {"to": to}, call_id="c1")


@members
async def test_two_calls_of_one_id_are_misbehaviour(member: Any, payer: Any, paid: list[Any], streamed: bool) -> None:
    """Nothing has run, nothing is recorded, and the same is asked again when the run goes on."""
    async with member[0]([[pay("ada"), pay("bob")], "done"]) as server:
        model = model_of(member, server)
        agent = Agent("a", model=model, tools=[payer], model_settings=ModelSettings(retry=0))
        with pytest.raises(ModelBehaviorError, match="two different calls one call id") as raised:
            await play(agent, "go", streamed)
        failed: Any = raised.value
        assert (paid, failed.run_data.new_items) == ([], [])
        done = await play(agent, failed.run_data.to_state(), streamed)
        await model.close()
    assert done.final_output == "done"
    assert server.requests[0].body == server.requests[1].body


@members
async def test_the_same_call_twice_is_one_call(member: Any, payer: Any, paid: list[Any], streamed: bool) -> None:
    async with member[0]([[pay("ada"), pay("ada")], "done"]) as server:
        model = model_of(member, server)
        agent = Agent("a", model=model, tools=[payer])
        paused = await play(agent, "go", streamed)
        assert [item.call_id for item in paused.interruptions] == ["c1"]
        done = await play(agent, approve_all(paused), streamed)
        await model.close()
    assert (done.final_output, paid) == ("done", [("ada", 5)])
    assert server.requests[1].body.count(b"ada") == 2, "the call is told once, and its result once"


@members
async def test_in_a_later_turn_it_is_another_call(member: Any, payer: Any, paid: list[Any], streamed: bool) -> None:
    """The provider takes the conversation, and each of the two was asked about."""
    async with member[0]([[pay("ada")], [pay("ada")], "done"]) as server:
        model = model_of(member, server)
        agent = Agent("a", model=model, tools=[payer])
        again = await play(agent, approve_all(await play(agent, "go", streamed)), streamed)
        assert (len(again.interruptions), paid) == (1, [("ada", 5)])
        done = await play(agent, approve_all(again), streamed)
        await model.close()
    assert (done.final_output, paid) == ("done", [("ada", 5)] * 2)
