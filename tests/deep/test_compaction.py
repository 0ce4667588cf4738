"""A long conversation is compacted: recorded, so that replay is the same, and left as it is if that fails half way."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import App, Runner, RunState, UserError
from keyturn.core import events as ev
from keyturn.deep import Compaction, create_deep_agent
from keyturn.testing import check
from tests.deep.playing_deep import answered, listening, model, plainly, writes

LONG = "word " * 300


def long_agent(summaries: Any, *last: Any, **options: Any) -> Any:
    scripted = model(*[writes(f"/f{number}.md", LONG) for number in range(6)], *last)
    summarises = Compaction(max_tokens=1500, keep_tokens=600, model=summaries)
    return scripted, create_deep_agent(scripted, compaction=summarises, name="ops", **options)


def compacted(result: Any) -> list[ev.HistoryCompacted]:
    steps = result.inner.to_state().live.log.steps
    return [event for step in steps for event in step.events if isinstance(event, ev.HistoryCompacted)]


async def test_the_older_part_is_summarised(play: Any) -> None:
    summaries = model(*["What was done so far."] * 5)
    scripted, agent = long_agent(summaries, "Done.")
    done = await play(agent, "The task.")
    assert done.output == "Done."
    assert compacted(done)
    assert max(len(request.input) for request in scripted.calls) < 10
    last = scripted.calls[-1].input
    assert last[0]["content"] == "The task."
    assert "What was done so far." in last[1]["content"]
    assert done.usage.requests == len(scripted.calls) + len(summaries.calls)


async def test_a_call_is_not_parted_from_its_result(play: Any) -> None:
    scripted, agent = long_agent(model(*["Summary."] * 5), "Done.")
    await play(agent, "The task.")
    for request in scripted.calls:
        calls = [item["call_id"] for item in request.input if item.get("type") == "function_call"]
        results = [item["call_id"] for item in request.input if item.get("type") == "function_call_output"]
        assert calls == results


@pytest.mark.parametrize("fault", [RuntimeError("boom"), "", ConnectionError()])
async def test_one_that_fails_half_way_leaves_the_conversation(play: Any, fault: Any) -> None:
    scripted, agent = long_agent(model(*[fault] * 5), "Done.")
    done = await play(agent, "The task.")
    assert done.output == "Done."
    assert compacted(done) == []
    assert len(scripted.calls[-1].input) == 13


async def test_a_replay_reads_the_same(play: Any) -> None:
    scripted, agent = long_agent(model(*["Summary."] * 5), writes("/last"), "Done.", interrupt_on={})
    rules: Any = {"write_file": lambda ctx, params, call_id: params["path"] == "/last"}
    scripted, agent = long_agent(model(*["Summary."] * 5), writes("/last"), "Done.", interrupt_on=rules)
    waits = await play(agent, "The task.")
    core = agent.core_agent()
    text = waits.inner.to_state().to_string()
    state = await RunState.from_string(core, text)
    assert state.live.conversation("r") == waits.inner.to_state().live.conversation("r")
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(core, state)).final_output == "Done."
    assert "Summary." in scripted.calls[-1].input[1]["content"]


async def test_the_journal_of_a_compacted_run_is_sound(tmp_path: Any) -> None:
    _, agent = long_agent(model(*["Summary."] * 5), "Done.")
    declared: Any = agent
    async with App([declared], f"sqlite:///{tmp_path}/runs.db") as app:
        assert (await (await app.start("ops", "go")).result(20)).final_output == "Done."
        assert (await check(app.journal)).ok


async def test_nothing_is_compacted_where_that_is_switched_off() -> None:
    scripted = model(*[writes(f"/f{number}.md", LONG) for number in range(6)], "Done.")
    done = await plainly(create_deep_agent(scripted, compaction=False), "The task.")
    assert (done.output, compacted(done)) == ("Done.", [])


async def test_the_messages_of_a_compacted_run_are_believed_again() -> None:
    rules: Any = {"write_file": lambda ctx, params, call_id: params["path"] == "/last"}
    _, agent = long_agent(model(*["Summary."] * 5), writes("/last"), "Done.", interrupt_on=rules)
    waits = await listening(agent, "The task.")
    assert (await answered(listening, agent, waits)).output == "Done."


@pytest.mark.parametrize(
    "wrong", [{"max_tokens": 0}, {"max_tokens": True}, {"keep_tokens": 0}, {"keep_tokens": 200_000}]
)
def test_a_compaction_that_shortens_nothing_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"Compaction (max|keep)_tokens"):
        Compaction(**wrong)
