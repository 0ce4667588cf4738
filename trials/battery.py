"""The battery: short trials of the laws of the gate, each of which a right build passes and some broken build does not.

A trial asserts; what it leaves in its stores the checker reads afterwards. They are few and quick on purpose: they
are run once for each mutant.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from keyturn import (
    Approval,
    Conflict,
    Expired,
    Grant,
    NotPending,
    Runner,
    RunState,
    StateRejected,
    ToolContext,
    UserError,
    function_tool,
)
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.codec import Log
from keyturn.core.errors import StorageError, StorageFull
from keyturn.core.policy import Verdict
from keyturn.engine.run.log_cache import verify_run
from keyturn.journal.base import LostRace
from keyturn.journal.rows import Changes, RequestRow, RunRow
from keyturn.policies.rules import Policy, Rule
from keyturn.testing import ScriptedModel, UnexpectedModelCall, assistant_message, function_call
from keyturn.testing.crash import Effects, Scenario, sweep
from keyturn.testing.suites.records import sealed_lines
from keyturn.tools.base import OutcomeUnknown
from trials.bench import Bench, Pen, Trial, call

BATTERY: list[Trial] = []


def trial(function: Trial) -> Trial:
    """Put a trial into the battery."""
    BATTERY.append(function)
    return function


# Decisions, by commands alone ---------------------------------------------------------------------------------------


@trial
async def an_approved_call_runs_once(b: Bench) -> None:
    pen = b.pen().asks()
    pen.decide(pen.word())
    pen.start()
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))
    pen.finish()
    pen.refuses(Conflict, cm.FinishCall("r/1.0", {"output": "again"}))


@trial
async def a_decision_for_other_bytes_is_refused(b: Bench) -> None:
    pen = b.pen().asks()
    pen.refuses(Conflict, cm.Deliver([pen.word(digest="0" * 64)]))
    assert pen.state == "asked"


@trial
async def the_first_decision_stands(b: Bench) -> None:
    pen = b.pen().asks()
    pen.decide(pen.word())
    pen.refuses(Conflict, cm.Deliver([pen.word("reject", by="bob")]))
    assert pen.state == "approved"


@trial
async def one_delivery_has_one_word(b: Bench) -> None:
    pen = b.pen().asks()
    pen.refuses(Conflict, cm.Deliver([pen.word(), pen.word("reject", by="bob")]))


@trial
async def who_comes_late_is_told(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(expires="1s"))
    pen.now += 5_000
    pen.refuses(Expired, cm.Deliver([pen.word()]))
    pen(cm.Tick())
    assert pen.state == "expired"


@trial
async def a_stale_approval_asks_again(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(execute_by="1s"))
    pen.decide(pen.word())
    pen.passes()
    pen.now += 5_000
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))
    pen(cm.Tick())
    assert pen.state == "asked"


@trial
async def two_are_two_people(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(quorum=2))
    pen.decide(pen.word())
    pen.decide(pen.word())
    assert pen.state == "asked"
    pen.decide(pen.word(by="bob"))
    assert pen.state == "approved"


@trial
async def a_forged_log_does_not_run(b: Bench) -> None:
    pen = Pen().asks()
    pen.decide(pen.word())
    pen.passes()
    forged = [line.replace(b'\\"x\\":1', b'\\"x\\":9') for line in pen.log.lines()]
    pen.log = Log.read(forged)
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))


@trial
async def what_was_lost_is_in_doubt(b: Bench) -> None:
    pen = b.pen().asks()
    pen.decide(pen.word())
    pen.start()
    pen(cm.LoseCall("r/1.0", "the process ended"))
    assert pen.state == "in_doubt"


@trial
async def no_tool_runs_before_the_guardrails_reported(b: Bench) -> None:
    pen = b.pen().asks(guarded="beside")
    pen.decide(pen.word())
    pen.passes()
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))
    pen(cm.GuardFrame("r", [ev.Report("g", "input", tripped=True)]))
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))


@trial
async def a_grant_is_used_up_in_one_reply(b: Bench) -> None:
    pen = b.pen().asks(count=3)
    word = pen.word()
    pen(cm.Deliver([word], [ev.GrantTerms("g", "desk", "t1", uses=1, decider=word.decider)]))
    pen(cm.Screen("r/1.1", Verdict("ask")))
    pen(cm.Screen("r/1.2", Verdict("ask")))
    assert [pen.stands(name) for name in ("r/1.0", "r/1.1", "r/1.2")] == ["approved", "allowed", "asked"]
    assert pen.log.run.grant_uses == {"g": 1}


# Whole runs ---------------------------------------------------------------------------------------------------------


@trial
async def an_edit_takes_what_the_tool_asks(b: Bench) -> None:
    tool = b.tool()
    tool.needs_approval, tool.approval = False, Approval(reason="required")
    policy = Policy(Rule("ask", where={"x": {"lt": 10}}, approval=Approval()))
    agent = b.agent(call("pay", 1), tools=[tool])
    result = await Runner.run(agent, "go", policy=policy)
    state = result.to_state()
    state.approve(result.interruptions[0], edit={"x": 70}, by="ada")
    result = await Runner.run(agent, state, policy=policy)
    assert (len(result.interruptions), b.done) == (1, [])


@trial
async def what_is_approved_is_recorded_runs_and_is_recorded(b: Bench) -> None:
    journal, seen = b.journal(), list[bytes]()
    tool = b.tool()
    act = tool.on_invoke_tool

    async def watched(context: Any, text: str) -> Any:
        seen.append((await journal.read(context.run_id))[-1])
        return await act(context, text)

    tool.on_invoke_tool = watched
    agent = b.agent(call("pay", 1), call("pay", 2), tools=[tool])
    result = await Runner.run(agent, "go", journal=journal)
    while result.interruptions:
        state = result.to_state()
        state.approve(result.interruptions[0], by="ada")
        result = await Runner.run(agent, state)
    assert [what for _key, what in b.done] == ["pay(1)", "pay(2)"]
    assert all(b"CallStarted" in line for line in seen), "the effect was before its intent"


@trial
async def what_is_rejected_does_not_run(b: Bench) -> None:
    agent, state = await b.paused(journal=b.journal())
    state.reject(state.get_interruptions()[0])
    await Runner.run(agent, state)
    assert not b.done


@trial
async def what_a_policy_denies_does_not_run(b: Bench) -> None:
    await Runner.run(b.agent(call("pay", 1)), "go", journal=b.journal(), policy=lambda _view, _context: "deny")
    assert not b.done


@trial
async def a_policy_that_raises_asks(b: Bench) -> None:
    def broken(_view: Any, _context: Any) -> Any:
        raise RuntimeError

    agent = b.agent(call("free", 1), tools=[b.tool("free", needs_approval=False)])
    result = await Runner.run(agent, "go", journal=b.journal(), policy=broken)
    assert (b.done, len(result.interruptions)) == ([], 1)


@trial
async def a_policy_that_was_tightened_counts(b: Bench) -> None:
    agent, state = await b.paused(journal=b.journal(), policy=lambda _view, _context: "ask")
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, policy=lambda _view, _context: "deny")
    assert not b.done


@trial
async def a_tool_that_changed_asks_again(b: Bench) -> None:
    _agent, state = await b.paused(journal=b.journal())
    state.approve(state.get_interruptions()[0])
    other = b.agent(tools=[b.tool(description_override="Pay anybody anything.")])
    result = await Runner.run(other, state)
    assert (b.done, len(result.interruptions)) == ([], 1)


@trial
async def a_decision_of_another_run_is_none(b: Bench) -> None:
    _agent, one = await b.paused(journal=b.journal())
    _agent, other = await b.paused(journal=b.journal())
    with pytest.raises(NotPending):
        one.approve(other.get_interruptions()[0])


@trial
async def an_edit_is_validated(b: Bench) -> None:
    _agent, state = await b.paused()
    with pytest.raises(UserError):
        state.approve(state.get_interruptions()[0], edit={"x": "all of it"})


@trial
async def a_grant_covers_what_it_says(b: Bench) -> None:
    rounds = [call("pay", 1), call("pay", 2), call("pay", 9), call("free", 1)]
    agent = b.agent(*rounds, tools=[b.tool(), b.tool("free")])
    state = (await Runner.run(agent, "go", journal=b.journal())).to_state()
    state.approve(state.get_interruptions()[0], grant=Grant(where={"x": {"le": 5}}))
    result = await Runner.run(agent, state)
    assert [what for _key, what in b.done] == ["pay(1)", "pay(2)"]
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    assert len((await Runner.run(agent, state)).interruptions) == 1
    assert len(b.done) == 3


@trial
async def a_state_is_used_once(b: Bench) -> None:
    agent, state = await b.paused()
    text = state.to_string()
    for _ in range(2):
        again = await RunState.from_string(agent, text)
        again.approve(again.get_interruptions()[0])
        with suppress(Conflict, UnexpectedModelCall):
            await Runner.run(agent, again)
    assert len(b.done) == 1


@trial
async def a_state_that_was_changed_is_refused(b: Bench) -> None:
    agent, state = await b.paused()
    text = state.to_string().replace("pay_1", "pay_2")
    with pytest.raises(StateRejected):
        await RunState.from_string(agent, text)


@trial
async def one_text_has_one_value(b: Bench) -> None:
    twice = function_call("pay", '{"x": 1, "x": 1000}', call_id="c")
    result = await Runner.run(b.agent(twice), "go")
    assert (b.done, result.interruptions) == ([], [])


@trial
async def a_probe_that_cannot_tell_leaves_the_doubt(b: Bench) -> None:
    async def transfer(context: ToolContext[Any]) -> str:
        b.done.append((context.idempotency_key, "transfer"))
        raise OutcomeUnknown("nobody answered")

    agent = b.agent(function_call("transfer", {}), tools=[function_tool(transfer, check=lambda _context: None)])
    result = await Runner.run(agent, "go", journal=b.journal())
    result = await Runner.run(agent, result.to_state())
    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    assert len(b.done) == 1


@trial
async def no_crash_loses_or_doubles_an_effect(b: Bench) -> None:
    def build(effects: Effects) -> Any:
        b.done = effects.done
        tools = [b.tool(), b.tool("probed", needs_approval=False, check=lambda _context: None)]
        agent = b.agent(tools=tools)
        rounds = [call("pay", 1), call("probed", 2)]

        def answer(request: Any) -> Any:
            known = {item.get("call_id") for item in request.input if item.get("type") == "function_call_output"}
            left = [each for each in rounds if each["call_id"] not in known]
            return left[:1] or [assistant_message("done")]

        agent.model = ScriptedModel(answer)
        return agent

    report = await sweep(Scenario("two calls", build))
    b.done = []
    assert not report.violations, report.violations[0]
    assert report.doubts, "nothing was ever in doubt"


# Stores -------------------------------------------------------------------------------------------------------------


async def _one_holder(store: Any) -> None:
    first = await store.claim("run", "w", 60_000)
    with pytest.raises(Conflict):
        await store.claim("run", "v", 60_000)
    await store.append("run", 0, [b"1"], first)
    await store.release(first)
    second = await store.claim("run", "w", 60_000)
    assert second.epoch > first.epoch
    with pytest.raises(Conflict):
        await store.append("run", 1, [b"2"], first)
    await store.append("run", 1, [b"2"], second)


@trial
async def one_holder_at_a_time(b: Bench) -> None:
    await _one_holder(Bench().journal())


@trial
async def one_holder_at_a_time_in_a_file(b: Bench) -> None:
    async with b.file() as store:
        await _one_holder(store)


@trial
async def lines_that_come_together_are_linked(b: Bench) -> None:
    store = Bench().journal()
    first, second, third = sealed_lines(store, "run", [b"1", b"2", b"3"])
    await store.append("run", 0, [first, second, third])
    assert await verify_run(store, "run") is None
    await store.append("moved", 0, sealed_lines(store, "moved", [b"1"]))
    await store.append("moved", 1, [sealed_lines(store, "moved", [b"2"])[0]])
    assert await verify_run(store, "moved") == 1


@trial
async def who_lost_the_race_is_told(b: Bench) -> None:
    store = Bench().journal()
    row = RunRow("run", "desk", "running", 0, 0)
    await store.append("run", 0, [b"1", b"2"], None, Changes(row))
    with pytest.raises(LostRace):
        await store.append("run", 1, [b"3"], None, Changes(RunRow("run", "desk", "finished", 0, 0)))
    assert (await store.read("run"), await store.runs()) == ([b"1", b"2"], [row])


@trial
async def two_deciders_at_once_are_both_heard(b: Bench) -> None:
    """Two calls, two people: neither word is lost, whoever appends first."""
    journal = b.journal()
    agent, state = await b.paused([call("pay", 1), call("pay", 2)], journal=journal)
    first, second = state.get_interruptions()
    state.approve(first)
    state.reject(second)
    await Runner.run(agent, state)
    assert [what for _key, what in b.done] == ["pay(1)"]


@trial
async def a_row_that_cannot_be_written_keeps_its_line_away(b: Bench) -> None:
    row = RequestRow("q", "run", "r/1.0", "approval", "pay", "desk", "d", 5)
    async with b.file() as store:
        refuse = "CREATE TRIGGER full BEFORE INSERT ON requests BEGIN SELECT RAISE(ABORT, 'no'); END"
        await store._writer.ask(lambda db: db.execute(refuse))
        with pytest.raises(StorageError):
            await store.append("run", 0, [b"1"], None, Changes(RunRow("run", "desk", "waiting", 0, 0), [row]))
        assert await store.head("run") == 0


@trial
async def what_cannot_be_recorded_is_not_done(b: Bench) -> None:
    journal = b.journal()
    append: Any = journal.append

    async def full(run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
        if any(b"CallStarted" in line for line in lines):
            raise StorageFull("the disk is full")
        await append(run, expected, lines, claim, changes)

    agent, state = await b.paused(journal=journal)
    state.approve(state.get_interruptions()[0])
    journal.append = full
    with pytest.raises(StorageFull):
        await Runner.run(agent, state)
    assert not b.done
    journal.append = append
