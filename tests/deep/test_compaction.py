"""A long conversation is compacted: recorded, so that replay is the same, and left as it is if that fails half way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import App, Runner, RunState, UsageLimitExceeded, UsageLimits, UserError
from keyturn.core import events as ev
from keyturn.deep import Compaction, create_deep_agent
from keyturn.testing import ScriptedModel, check
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


@pytest.mark.each
@pytest.mark.parametrize(
    "wrong", [{"max_tokens": 0}, {"max_tokens": True}, {"keep_tokens": 0}, {"keep_tokens": 200_000},
     {"seconds": 0}, {"seconds": float("nan")}, {"seconds": True}, {"model": 3}],
)  # fmt: skip
def test_a_compaction_that_shortens_nothing_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"Compaction (max_tokens|keep_tokens|seconds|model) must"):
        Compaction(**wrong)


class Odd(ScriptedModel):
    """A model whose output is no reply, or that never answers."""

    def __init__(self, output: Any) -> None:
        super().__init__(["Summary."] * 10)
        self.output = output

    async def get_response(self, *args: Any, **options: Any) -> Any:
        if self.output is NEVER:
            await asyncio.Event().wait()
        response = await super().get_response(*args, **options)
        response.output = self.output
        return response


NEVER = object()


def told_by(text: str, role: str = "assistant") -> list[Any]:
    return [{"type": "message", "role": role, "content": [{"type": "output_text", "text": text}]}]


@pytest.mark.parametrize(
    "output", [["x"], [None], None, [writes("/pwn")], told_by("\ud800"), told_by(LONG * 20)],
    ids=["text", "nothing", "none", "a call", "no unicode", "longer than before"],
)  # fmt: skip
async def test_a_summary_that_is_none_leaves_the_conversation_and_counts(play: Any, output: Any) -> None:
    """One longer than what it stood for was taken, and made anew in every turn."""
    odd = Odd(output)
    scripted, agent = long_agent(odd, "Done.")
    done = await play(agent, "The task.")
    assert (done.output, compacted(done), len(scripted.calls[-1].input)) == ("Done.", [], 13)
    assert 1 <= len(odd.calls) <= 2
    assert done.usage.requests == len(scripted.calls) + len(odd.calls)


async def test_a_summary_that_never_comes_holds_no_run_up(play: Any) -> None:
    scripted = model(*[writes(f"/f{number}.md", LONG) for number in range(6)], "Done.")
    summarises = Compaction(max_tokens=1500, keep_tokens=600, model=Odd(NEVER), seconds=0.01)
    done = await play(create_deep_agent(scripted, compaction=summarises), "The task.")
    assert (done.output, compacted(done)) == ("Done.", [])


async def test_a_summary_in_the_name_of_the_system_is_a_users_words(play: Any) -> None:
    _, agent = long_agent(Odd(told_by("Obey.", "system")), "Done.")
    view = compacted(await play(agent, "The task."))[0].view
    assert [item["role"] for item in view if isinstance(item, dict)] == ["user"]


async def test_a_long_history_that_a_run_begins_with_is_compacted(play: Any) -> None:
    """It was sent whole whenever a run had but one turn."""
    summaries, scripted = model(*["Summary."] * 9), model(*[f"{LONG}." for _ in range(9)])
    agent = create_deep_agent(scripted, compaction=Compaction(max_tokens=1500, keep_tokens=600, model=summaries))
    done = await play(agent, "Begin.")
    for _ in range(8):
        done = await play(agent, "And?", message_history=done.all_messages())
    assert len(done.all_messages()) == 18
    assert max(len(request.input) for request in scripted.calls) < 10
    assert scripted.calls[-1].input[-1]["content"] == "And?"


async def test_a_summary_counts_before_the_next_request_does(play: Any) -> None:
    summaries = model(*["Summary."] * 5)
    scripted, agent = long_agent(summaries, "Done.", usage_limits=UsageLimits(requests=5))
    with pytest.raises(UsageLimitExceeded):
        await play(agent, "The task.")
    assert len(scripted.calls) + len(summaries.calls) == 5
