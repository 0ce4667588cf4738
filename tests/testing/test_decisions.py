"""Deciding without a person: each verdict does what it says, and a run is driven to its end in every way."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, MemoryJournal, NotPending, Runner, RunResult, RunState, UserError, ask_user, function_tool
from keyturn.testing import (
    Answer,
    ScriptedModel,
    approve_all,
    assistant_message,
    decide,
    drive,
    function_call,
    reject_all,
    tool_outputs,
)

WAYS = [
    pytest.param({"streamed": streamed, "through_text": text}, id=f"{'streamed' if streamed else 'plain'}-{kept}")
    for streamed in (False, True)
    for text, kept in ((False, "in_hand"), (True, "as_text"))
]


@pytest.fixture
def paid() -> list[str]:
    """Whom the tool has paid."""
    return []


@pytest.fixture
def agent(paid: list[str]) -> Agent[Any]:
    """Pays ada and bob at once, then cy, each after approval, and tells what it read."""

    @function_tool(needs_approval=True)
    def pay(to: str) -> str:
        paid.append(to)
        return f"paid {to}"

    def answer(request: Any) -> Any:
        done = tool_outputs(request)
        if "c2" not in done:
            return [function_call("pay", {"to": name}, call_id=label) for label, name in (("c1", "ada"), ("c2", "bob"))]
        if "c3" not in done:
            return function_call("pay", {"to": "cy"}, call_id="c3")
        return assistant_message("; ".join(map(str, done.values())))

    return Agent("payer", model=ScriptedModel(answer), tools=[pay])


@pytest.mark.parametrize("way", WAYS)
async def test_a_run_is_driven_to_its_end(agent: Agent[Any], paid: list[str], way: dict[str, bool]) -> None:
    result = await drive(agent, "go", **way)
    assert isinstance(result, RunResult)
    assert result.final_output == "paid ada; paid bob; paid cy"
    assert sorted(paid) == ["ada", "bob", "cy"]


@pytest.mark.parametrize("way", WAYS)
async def test_rejected_calls_do_not_run(agent: Agent[Any], paid: list[str], way: dict[str, bool]) -> None:
    result = await drive(agent, "go", decide=lambda result: reject_all(result, message="no money"), **way)
    assert result.final_output == "no money; no money; no money"
    assert paid == []


@pytest.mark.parametrize("way", WAYS)
async def test_each_call_is_decided_for_itself(agent: Agent[Any], paid: list[str], way: dict[str, bool]) -> None:
    verdicts: dict[str, Any] = {"ada": {"to": "dee"}, "bob": False, "cy": Answer("cash")}
    result = await drive(agent, "go", decide=lambda r: decide(r, lambda item: verdicts[item.params["to"]]), **way)
    assert paid == ["dee"]
    assert "paid dee; " in result.final_output, "the edited call ran, as edited"
    assert "paid bob" not in result.final_output
    assert result.final_output.endswith("; cash")


async def test_a_decider_may_wait(agent: Agent[Any]) -> None:
    async def later(result: RunResult) -> RunState[Any]:
        return approve_all(result)

    assert (await drive(agent, "go", decide=later)).final_output == "paid ada; paid bob; paid cy"


async def test_words_decide_too(agent: Agent[Any], paid: list[str]) -> None:
    result = await Runner.run(agent, "go")
    state = decide(result, lambda item: "approve" if item.call_id == "c1" else "reject")
    await Runner.run(agent, state)
    assert paid == ["ada"]


async def test_what_is_left_alone_still_waits(agent: Agent[Any], paid: list[str]) -> None:
    result = await Runner.run(agent, "go")
    again = await Runner.run(agent, decide(result, lambda item: True if item.call_id == "c1" else None))
    assert [item.call_id for item in again.interruptions] == ["c2"]
    assert paid == ["ada"]


@pytest.mark.parametrize("how", [1, 0, "yes", "aprove", [], object(), lambda: True])
async def test_only_a_verdict_decides(agent: Agent[Any], paid: list[str], how: Any) -> None:
    result = await Runner.run(agent, "go")
    with pytest.raises(UserError, match="such as was given for 'pay'"):
        decide(result, lambda _item: how)
    assert paid == []


async def test_a_call_that_waits_for_approval_is_not_in_doubt(agent: Agent[Any]) -> None:
    with pytest.raises(NotPending):
        decide(await Runner.run(agent, "go"), lambda _item: "ran")


async def test_a_state_in_hand_is_decided_a_result_is_not_touched(agent: Agent[Any]) -> None:
    result = await Runner.run(agent, "go")
    state = result.to_state()
    assert approve_all(state) is state
    assert reject_all(result) is not reject_all(result)
    assert len(result.interruptions) == 2


async def test_a_streamed_result_is_decided(agent: Agent[Any]) -> None:
    stream = Runner.run_streamed(agent, "go")
    async for _event in stream.stream_events():
        pass
    assert [item.call_id for item in (await Runner.run(agent, approve_all(stream))).interruptions] == ["c3"]


async def test_a_run_that_never_ends_is_given_up(agent: Agent[Any]) -> None:
    with pytest.raises(AssertionError, match="after 1 rounds of decisions calls still wait: pay"):
        await drive(agent, "go", rounds=1)


async def test_no_rounds_are_enough_where_nothing_waits() -> None:
    agent = Agent("a", model=ScriptedModel(["hello"]))
    assert (await drive(agent, "hi", rounds=0)).final_output == "hello"


@pytest.mark.parametrize("way", WAYS)
async def test_options_are_passed_on(agent: Agent[Any], paid: list[str], way: dict[str, bool]) -> None:
    context, journal = {"who": "me"}, MemoryJournal()
    result = await drive(agent, "go", context=context, journal=journal, **way)
    assert result.context_wrapper.context is context
    assert await journal.head(result.run_id) > 0
    assert sorted(paid) == ["ada", "bob", "cy"]


async def test_a_question_is_answered_or_refused_and_never_approved() -> None:
    def reply(request: Any) -> Any:
        done = tool_outputs(request)
        return done.get("c1") or function_call("ask_user", {"question": "Which?"}, call_id="c1")

    agent = Agent("a", model=ScriptedModel(reply), tools=[ask_user()])
    for said, read in ((Answer("this"), "this"), (False, "The question was not answered.")):
        state = decide(await Runner.run(agent, "go"), lambda _item, said=said: said)
        assert (await Runner.run(agent, state)).final_output == read
    with pytest.raises(NotPending, match=r"answer\(\)"):
        approve_all(await Runner.run(agent, "go"))
