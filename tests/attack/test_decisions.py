"""What an attack found about deciding, and what holds since: words that counted wrongly, got lost or stuck."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest

from keyturn import (
    Agent,
    Approval,
    Expired,
    Grant,
    KeyturnError,
    MemoryJournal,
    NotPending,
    Runner,
    RunState,
    Secret,
    UserError,
    Verdict,
    function_tool,
)
from keyturn.core.errors import Conflict, RunMissing
from keyturn.inbox.desk import Inbox
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel, approve_all, function_call
from keyturn.testing.suites.door_case import payment
from keyturn.tools.base import OutcomeUnknown
from tests.playing import HOUR, Clock, fresh

from .world import Desk, clerk, told


def pass_an_hour(state: Any) -> None:
    """Let more than an hour go by for a run in hand."""
    later = state.live.clock() + 3_700_000
    state.live.clock = lambda: later


async def test_what_ran_out_is_settled_though_its_tool_is_gone() -> None:
    """H6: no door could move it: each resume missed the tool before it looked at the clock."""
    done: list[Any] = []
    desk = Desk(clerk(payment(done, approval=Approval(expires="1h")), [{"to": "ada", "amount": 1}]))
    await desk.start()
    desk.time[0] += 7_200_000
    desk.agent = Agent("clerk", model=desk.agent.model, tools=[])
    with pytest.raises(Expired):
        await desk.inbox.reject(await desk.row(), by="ann")
    assert (await desk.go_on()).final_output == "done"
    assert done == []


async def test_a_word_on_the_context_that_came_too_late_is_dropped() -> None:
    """H7: `to_state()` raised each time, so that there was nothing to resume."""
    result = await Runner.run(clerk(payment([], approval=Approval(expires="1h")), [{"to": "ada", "amount": 1}]), "go")
    result.context_wrapper.approve_tool(result.interruptions[0])
    pass_an_hour(result.to_state())
    state = result.to_state()
    assert (await Runner.run(result.last_agent, state)).final_output == "done"


async def test_an_approval_outlives_a_sibling_that_ran_out() -> None:
    """M3: what came too late is refused once, and what stands beside it is kept."""
    done: list[Any] = []

    @function_tool(needs_approval=True)
    def mail(to: str) -> str:
        """Mails."""
        done.append(to)
        return "sent"

    calls = [function_call("pay", {"to": "ada", "amount": 1}), function_call("mail", {"to": "bob"})]
    agent = Agent(
        "clerk", model=ScriptedModel([calls, "done"]), tools=[payment([], approval=Approval(expires="1h")), mail]
    )
    state = approve_all(await Runner.run(agent, "go"))
    pass_an_hour(state)
    with pytest.raises(Expired):
        await Runner.run(agent, state)
    await Runner.run(agent, state)
    assert done == ["bob"]


async def test_a_word_on_a_call_that_runs_is_refused_at_once() -> None:
    """M4: it was taken in hand and made every resume a conflict."""
    begun, going = asyncio.Event(), asyncio.Event()
    done: list[int] = []

    @function_tool(needs_approval=True)
    async def slow(number: int) -> str:
        """Slow."""
        begun.set()
        await going.wait()
        done.append(number)
        return "done"

    agent = clerk(slow, [{"number": 1}, {"number": 2}])
    state = (await Runner.run(agent, "go")).to_state()
    first, second = state.get_interruptions()
    state.approve(first)
    drive = asyncio.create_task(Runner.run(agent, state))
    await begun.wait()
    with pytest.raises(Conflict):  # it runs already
        state.reject(first)
    state.approve(second)
    going.set()
    await drive
    await Runner.run(agent, state)
    assert done == [1, 2]


async def test_a_secret_that_a_person_typed_stays_one_when_the_tool_is_gone() -> None:
    """M5: what was secret when the call was shown is secret, whatever tool is at hand."""

    @function_tool(needs_approval=True)
    async def log_in(password: Annotated[str, Secret]) -> str:
        """Logs in."""
        raise OutcomeUnknown("the line was cut")

    desk = Desk(clerk(log_in, [{"password": "old"}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by="ann", edit={"password": "hunter2"})
    await desk.go_on()
    await desk.inbox.resolve(await desk.row(), "ran", by="ann")
    desk.agent = Agent("clerk", model=desk.agent.model, tools=[])
    assert "hunter2" not in repr(told(await desk.go_on()))


async def test_a_policy_that_is_down_loses_no_approval_in_a_nested_agent() -> None:
    """M8: it closed the frame, and the approval in it was gone."""
    done: list[Any] = []
    up = [True]

    def policy(call: Any, context: Any) -> None:
        if not up[0]:
            raise OSError("the policy service is down")

    inner = Agent(
        "inner",
        model=ScriptedModel([[function_call("pay", {"to": "a", "amount": 1})], "paid", "x"]),
        tools=[payment(done)],
    )
    outer = Agent(
        "outer",
        model=ScriptedModel([[function_call("delegate", {"input": "go"})], "done"]),
        tools=[inner.as_tool("delegate", "d")],
    )
    state = (await Runner.run(outer, "go", policy=policy)).to_state()
    state.approve(state.get_interruptions()[0])
    up[0] = False
    with pytest.raises(KeyturnError):  # as in the root: "nothing ran: mend it and resume"
        await Runner.run(outer, state, policy=policy)
    up[0] = True
    await Runner.run(outer, state, policy=policy)
    assert done == [("a", 1)]


@pytest.mark.parametrize("how", ["slow", "raises"])
async def test_on_approval_that_is_slow_or_raises_closes_no_nested_agent(how: str) -> None:
    """M8: an answer that never came leaves the call to people."""

    async def decide(context: Any, item: Any) -> Any:
        if how == "raises":
            raise OSError("down")
        clock.pass_ms(2 * HOUR)
        return {"approve": True}

    clock, tool = Clock(), payment([], approval=Approval(expires="1h"))
    tool.on_approval = decide
    inner = Agent(
        "inner", model=ScriptedModel([[function_call("pay", {"to": "a", "amount": 1})], "in", "x"]), tools=[tool]
    )
    outer = Agent(
        "outer",
        model=ScriptedModel([[function_call("delegate", {"input": "go"})], "done"]),
        tools=[inner.as_tool("delegate", "d")],
    )
    result = await Runner.run(outer, fresh(outer, clock=clock))
    assert "An error occurred" not in repr(told(result)), "the frame was closed over a call that waited"


async def test_no_grant_comes_with_a_decision_that_was_somebody_elses() -> None:
    """L1: the first decision stands, and the second brings nothing with it."""
    done: list[Any] = []
    agent = clerk(payment(done), [{"to": "ada", "amount": 1}, {"to": "bob", "amount": 2}])
    journal = MemoryJournal()
    run = (await Runner.run(agent, "go", journal=journal)).run_id
    state = await RunState.load(journal, run, agent)
    inbox = Inbox(journal)
    first = state.get_interruptions()[0]
    await inbox.approve(first, by="ann")
    state.approve(first, by="eve", grant=Grant())
    with pytest.raises(Conflict):  # her decision is in no log, so her grant is in none
        await Runner.run(agent, state)
    assert ("bob", 2) not in done


async def test_a_word_on_the_context_for_an_earlier_asking_is_dropped() -> None:
    """L2: `to_state()` raised each time; the words on a context cannot be taken back."""
    tool = payment([])
    agent = clerk(tool, [{"to": "ada", "amount": 1}])
    result = await Runner.run(agent, "go")
    state, shown = result.to_state(), result.interruptions[0]
    state.approve(shown)
    tool.description = "changed"
    tool.spec()["description"] = "changed"
    tool.known_spec = None
    again = await Runner.run(agent, state)
    again.context_wrapper.approve_tool(shown)
    assert not again.to_state().undelivered.decisions  # it was dropped: nobody could take it back


@pytest.mark.parametrize("what", ["cyclic edit", "deep edit", "seen", "revoke"])
async def test_what_is_no_edit_no_preview_and_no_grant_is_refused_with_a_typed_error(what: str) -> None:
    """L3: these were RecursionError, AttributeError and TypeError."""
    state = (await Runner.run(clerk(payment([]), [{"to": "ada", "amount": 1}]), "go")).to_state()
    (item,) = state.get_interruptions()
    cyclic: dict[str, Any] = {}
    cyclic["to"] = cyclic
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    bad: Any = 5
    said: dict[str, Any] = {
        "revoke": lambda: state.revoke([bad]),
        "seen": lambda: state.approve(item, edit={"to": "ada", "amount": 1}, seen=bad),
        "cyclic edit": lambda: state.approve(item, edit=cyclic),
        "deep edit": lambda: state.approve(item, edit=deep),
    }
    with pytest.raises(KeyturnError):
        said[what]()


async def test_half_a_character_in_an_answer_is_refused_when_it_is_said() -> None:
    """L4: it was taken in hand and failed at each resume."""
    agent = clerk(payment([]), [{"to": "ada", "amount": 1}])
    state = (await Runner.run(agent, "go")).to_state()
    with pytest.raises(KeyturnError):
        state.answer(state.get_interruptions()[0], "\ud800")


async def test_the_probe_of_another_tool_says_nothing_of_a_call() -> None:
    """L5: a tool that changed settled the doubt of what it was before."""

    def tool(about: str, probe: Any) -> Any:
        @function_tool(needs_approval=True, description_override=about)
        async def pay(amount: int) -> str:
            raise OutcomeUnknown("the line was cut")

        pay.check = probe
        return pay

    desk = Desk(clerk(tool("Pays.", lambda context: None), [{"amount": 5}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by="ann")
    await desk.go_on()
    desk.agent = Agent("clerk", model=desk.agent.model, tools=[tool("Pays at another bank.", lambda context: True)])
    assert [item.kind for item in (await desk.go_on()).interruptions] == ["in_doubt"]


async def test_half_a_character_means_the_same_in_memory_and_in_sqlite(tmp_path: Any) -> None:
    """L6: as a request's id, a run's id or a filter it names nothing, and no store raises an error of its own."""
    for journal in (MemoryJournal(), SQLiteJournal(str(tmp_path / "runs.db"))):
        inbox = Inbox(journal)
        with pytest.raises(NotPending):
            await inbox.get("\ud800")
        with pytest.raises(RunMissing):
            await inbox.tell("\ud800")
        with pytest.raises(RunMissing):
            await inbox.revoke("\ud800", "\ud800", by="ann")
        assert await inbox.list(state="\ud800", run="\ud800") == []
        assert await inbox.list(after=(0, "\ud800")) == []


async def test_a_policy_that_asked_is_not_forgotten_by_a_run_that_began_without_one() -> None:
    """L7: once a policy has judged a call of a run, the run goes on under a policy or not at all."""
    for policy in (lambda call, context: "ask", lambda call, context: Verdict("ask")):
        done: list[Any] = []
        agent = clerk(payment(done), [{"to": "ada", "amount": 1}], [{"to": "eve", "amount": 2}])
        state = (await Runner.run(agent, "go")).to_state()
        state.approve(state.get_interruptions()[0])
        state = (await Runner.run(agent, state, policy=policy)).to_state()
        state.approve(state.get_interruptions()[0])
        text = state.to_string()
        with pytest.raises(UserError, match="policy="):
            await Runner.run(agent, await RunState.from_string(agent, text))
        assert done == [("ada", 1)]
        await Runner.run(agent, await RunState.from_string(agent, text), policy=policy)
        assert done == [("ada", 1), ("eve", 2)]
