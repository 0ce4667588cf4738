"""What goes along with the next line: a decision with the start that it allows, a last reply with the run's end.

One append is one commit. Nothing of the world is touched between the two, and what others say meanwhile still counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from keyturn import (
    AgentHooks,
    Conflict,
    GuardrailFunctionOutput,
    MemoryJournal,
    RunState,
    output_guardrail,
)
from keyturn.core.codec import decode
from keyturn.inbox.desk import Inbox
from tests.playing import Desk, Run, call


class Told(MemoryJournal):
    """Remembers what each append said; `meanwhile` is done, once, just before the one that says `at`."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[list[list[str]]] = []
        self.at = b""
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None

    async def append(self, run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
        if self.meanwhile is not None and any(self.at in line for line in lines):
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        await super().append(run, expected, lines, claim, changes)
        self.appends.append([[type(event).__name__ for event in decode(line).events] for line in lines])


class Watched(Desk):
    """The same in a journal that tells, and with an inbox."""

    def __init__(self, calls: int = 1, replies: Sequence[str] = (), **options: Any) -> None:
        super().__init__([call("pay", f"c{n}", amount=5 + n) for n in range(calls)], "paid", *replies)
        self.agent = self.agent.clone(**options)
        self.journal = Told()
        self.inbox = Inbox(self.journal)

    async def asked(self, run: Run) -> RunState[Any]:
        """A run that waits."""
        result = await run(self.agent, "go", journal=self.journal)
        self.journal.appends.clear()
        return result.to_state()

    async def approved(self, run: Run, state: RunState[Any], at: bytes, meanwhile: Callable[[], Awaitable[Any]]) -> Any:
        """Ada approves; just before the journal is told the line of `at`, something else happens."""
        self.journal.at, self.journal.meanwhile = b'"e":"' + at + b'"', meanwhile
        state.approve(state.get_interruptions()[0], by="ada")
        return await run(self.agent, state)


async def test_a_decision_goes_along_with_the_start_that_it_allows(run: Run) -> None:
    desk = Watched()
    state = await desk.asked(run)
    state.approve(state.get_interruptions()[0])
    assert (await run(desk.agent, state)).final_output == "paid"
    assert desk.journal.appends == [
        [["CallDecided", "CallScreened", "CallStarted"]],
        [["CallFinished"]],
        [["ReplyRecorded", "FrameClosed"]],
    ]


async def test_what_was_said_is_recorded_before_anything_of_the_users_runs(run: Run) -> None:
    seen: list[int] = []

    class Looking(AgentHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            seen.append(len(desk.journal.appends))

        async def on_end(self, context: Any, agent: Any, output: Any) -> None:
            seen.append(len(desk.journal.appends))

    @output_guardrail
    async def fine(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        seen.append(len(desk.journal.appends))
        return GuardrailFunctionOutput(None, False)

    desk = Watched(hooks=Looking(), output_guardrails=[fine])
    state = await desk.asked(run)
    state.approve(state.get_interruptions()[0])
    await run(desk.agent, state)
    told = [names for lines in desk.journal.appends for names in lines]
    assert told[:4] == [["CallDecided", "CallScreened"], ["CallStarted"], ["CallFinished"], ["ReplyRecorded"]]
    assert told[4:] == [["GuardrailReported", "FrameClosed"]]
    assert seen == [1, 4, 4]


async def test_who_decides_otherwise_in_that_moment_wins_and_the_other_is_told(run: Run) -> None:
    desk = Watched()
    state = await desk.asked(run)
    [request] = await desk.inbox.list()
    with pytest.raises(Conflict) as refused:
        await desk.approved(run, state, b"CallDecided", lambda: desk.inbox.reject(request, by="bob"))
    assert refused.value.winner == "bob"
    assert (await desk.journal.runs())[0].status == "running"
    again = await run(desk.agent, await RunState.load(desk.journal, state.run_id, desk.agent))
    assert (again.final_output, desk.paid) == ("paid", [])


async def test_two_who_say_the_same_in_that_moment_are_of_one_mind(run: Run) -> None:
    desk = Watched()
    state = await desk.asked(run)
    [request] = await desk.inbox.list()
    result = await desk.approved(run, state, b"CallDecided", lambda: desk.inbox.approve(request, by="bob"))
    assert (result.final_output, desk.paid) == ("paid", [5])
    assert desk.journal.appends[:2] == [[["CallDecided"]], [["CallScreened", "CallStarted"]]]


async def test_a_message_in_that_moment_is_taken_in_and_the_decision_stands(run: Run) -> None:
    desk = Watched()
    state = await desk.asked(run)
    result = await desk.approved(run, state, b"CallDecided", lambda: desk.inbox.send(state.run_id, "be quick"))
    assert (result.final_output, desk.paid) == ("paid", [5])
    assert desk.journal.appends[:2] == [[["InputAdded"]], [["CallDecided", "CallScreened", "CallStarted"]]]


async def test_a_word_on_the_same_state_in_that_moment_is_kept_for_the_next_resume(run: Run) -> None:
    desk = Watched(calls=2)
    state = await desk.asked(run)
    first, second = state.get_interruptions()

    async def meanwhile() -> None:
        state.approve(second, by="ada")
        state.add_input("thanks")

    desk.journal.at, desk.journal.meanwhile = b'"e":"CallDecided"', meanwhile
    state.approve(first, by="ada")
    result = await run(desk.agent, state)
    assert ([item.call for item in result.interruptions], desk.paid) == ([second.call], [5])
    assert [item["content"] for item in state.pending_input] == ["thanks"]
    assert (await run(desk.agent, state)).final_output == "paid"
    assert desk.paid == [5, 6]


async def test_a_cancel_in_that_moment_ends_the_run_and_nothing_runs(run: Run) -> None:
    desk = Watched()
    state = await desk.asked(run)
    with pytest.raises(Conflict):
        await desk.approved(run, state, b"CallDecided", lambda: desk.inbox.cancel(state.run_id, by="bob"))
    assert desk.paid == []
    assert (await desk.journal.runs())[0].status == "cancelled"


async def test_a_message_between_the_last_reply_and_the_end_is_read(run: Run) -> None:
    desk = Watched(replies=["and now this"])
    state = await desk.asked(run)
    result = await desk.approved(run, state, b"FrameClosed", lambda: desk.inbox.send(state.run_id, "and now?"))
    assert result.final_output == "and now this"
    assert "and now?" in str(result.to_input_list())


async def test_a_cancel_between_the_last_reply_and_the_end_ends_the_run(run: Run) -> None:
    desk = Watched()
    state = await desk.asked(run)
    with pytest.raises(Conflict):
        await desk.approved(run, state, b"FrameClosed", lambda: desk.inbox.cancel(state.run_id, by="bob"))
    assert (await desk.journal.runs())[0].status == "cancelled"
    assert desk.paid == [5]
