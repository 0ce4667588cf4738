"""The battery's other part: who decides, what is asked again, and what of a store and of a saved state is believed.

The laws are those of the gate, of the seals and of a store that was brought back. A trial asserts, as in `battery.py`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec.structs import replace

from keyturn import Approval, Conflict, Expired, Inbox, Policy, Runner, RunState, Secret, StateRejected, function_tool
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.codec import Log
from keyturn.core.errors import LogDamaged, NotAllowed, StoreRestored
from keyturn.core.people import Decider
from keyturn.core.policy import CallView, Verdict
from keyturn.engine.states.undelivered import UndeliveredDecisions
from keyturn.journal.rows import Query
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.policies.rules import ask, deny
from keyturn.testing import function_call
from trials.bench import Bench, Pen, Trial, call

DECIDERS: list[Trial] = []


def trial(function: Trial) -> Trial:
    """Put a trial into this part of the battery."""
    DECIDERS.append(function)
    return function


# Who decides --------------------------------------------------------------------------------------------------------


def refused_for(pen: Pen, *words: ev.Decision) -> None:
    """See each of these words refused, and the call asked for as it was."""
    for word in words:
        pen.refuses(NotAllowed, cm.Deliver([word]))
    assert pen.state == "asked"


@trial
async def a_role_is_looked_at(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(role="ops"))
    refused_for(pen, pen.word(), pen.word(roles=("cooks",)))
    pen.decide(pen.word(roles=("ops",)))
    assert pen.state == "approved"


@trial
async def users_are_looked_at(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(users=["bob"]))
    refused_for(pen, pen.word(by="ada"), pen.word(by=""))
    pen.decide(pen.word(by="bob"))
    assert pen.state == "approved"


@trial
async def the_requester_confirms_before_others_decide(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(confirm=True, users=["bob"]))
    refused_for(pen, pen.word(by="bob"), pen.word(by="ada"))
    pen.decide(pen.word(by="req"))
    assert pen.state == "asked"
    pen.decide(pen.word(by="bob"))
    assert pen.state == "approved"


@trial
async def the_glass_is_broken_by_whom_the_terms_name(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(users=["bob"], break_glass="chief"))
    for roles in ((), ("cooks",)):
        refused_for(pen, replace(pen.word(by="ada", roles=roles), broke_glass=True, note="so"))
    pen.decide(replace(pen.word(by="ada", roles=("chief",)), broke_glass=True, note="so"))
    assert pen.state == "approved"


@trial
async def what_was_taken_back_asks_anew(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(users=["bob"]))
    pen.decide(pen.word(by="bob"))
    with pytest.raises(NotAllowed):
        pen(cm.Withdraw("r/1.0", Decider("ada", strength="authenticated")))
    pen(cm.Withdraw("r/1.0", Decider("bob", strength="authenticated")))
    assert pen.state == "asked"


@trial
async def nobody_approves_what_is_done_for_them(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(not_requester=True))
    refused_for(pen, pen.word(by="req"), pen.word(decider=Decider("x", strength="authenticated", requester=True)))
    pen.decide(pen.word(by="ada"))
    assert pen.state == "approved"


@trial
async def a_name_alone_proves_nothing(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(role="ops"))
    refused_for(pen, pen.word(roles=("ops",), strength="claimed"))


@trial
async def nobody_speaks_for_clock_grant_or_probe(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(quorum=2))
    for via in ("clock", "grant", "probe"):
        refused_for(pen, pen.word(by="", via=via), pen.word(via=via))
    refused_for(pen, pen.word(via="person", grant="g"))


@trial
async def a_grant_covers_what_its_giver_could_decide(b: Bench) -> None:
    pen = b.pen().asks(count=3)
    word = pen.word()
    pen(cm.Deliver([word], [ev.GrantTerms("g", "desk", "t1", decider=word.decider)]))
    pen(cm.Screen("r/1.1", Verdict("ask", terms=Approval(role="ops"))))
    pen(cm.Screen("r/1.2", Verdict("ask", terms=Approval(quorum=2))))
    assert (pen.stands("r/1.1"), pen.stands("r/1.2")) == ("asked", "asked")


@trial
async def a_text_cannot_say_that_somebody_logged_in(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(role="ops"))
    said = UndeliveredDecisions({"r/1.0": pen.word(roles=("ops",))})
    pen.refuses(NotAllowed, *said.commands())


# What is asked again ------------------------------------------------------------------------------------------------


@trial
async def a_word_on_one_asking_is_none_on_the_next(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(expires="1s", on_expiry="ask_again"))
    word = pen.word()
    pen.now += 5_000
    pen(cm.Tick())
    pen.refuses(Conflict, cm.Deliver([word]))
    pen.decide(pen.word())
    assert pen.state == "approved"


@trial
async def a_word_given_in_time_and_brought_late_is_late(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(expires="1s"))
    word = pen.word()
    pen.now += 5_000
    pen.refuses(Expired, cm.Deliver([word]))


@trial
async def an_edit_is_bound_to_its_bytes(b: Bench) -> None:
    pen = Pen().asks()
    pen.decide(pen.word("edit", args='{"x":2}'))
    pen.passes()
    forged = [line.replace(b'\\"x\\":2', b'\\"x\\":9') for line in pen.log.lines()]
    assert forged != pen.log.lines()
    pen.log = Log.read(forged)
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))


@trial
async def a_decision_waits_for_the_newest_policy(b: Bench) -> None:
    pen = b.pen().asks()
    pen.decide(pen.word())
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))


@trial
async def what_a_policy_says_by_now_counts(b: Bench) -> None:
    """The process that asked it before asks it again, once a person decides while it is at work."""
    journal, says = b.journal(), ["ask"]
    inbox = Inbox(journal)

    async def act() -> str:
        while not (rows := await inbox.list()):
            await asyncio.sleep(0.005)
        says.append("deny")
        await inbox.approve(rows[0], by="ada")
        return "done"

    def policy(view: CallView, _context: Any) -> str:
        return says[-1] if view.tool == "pay" else "allow"

    asked = [call("pay", 1), function_call("wait", {}, call_id="w")]
    agent = b.agent(asked, tools=[b.tool(), function_tool(act, name_override="wait", needs_approval=False)])
    await Runner.run(agent, "go", journal=journal, policy=policy)
    assert not b.done


@trial
async def what_nobody_can_tell_is_no_no(b: Bench) -> None:
    """A limit on a number, and something else in its place: one rule denies, and the other asks."""
    for rule, args in ((deny, {"x": "5e2"}), (ask, {"x": [500]})):
        agent = b.agent(function_call("free", args, call_id="c"), tools=[_takes_anything(b)])
        result = await Runner.run(agent, "go", policy=Policy(rule(tool="free", where={"x": {"gt": 100}})))
        assert (b.done, len(result.interruptions)) == ([], int(rule is ask))


def _takes_anything(b: Bench) -> Any:
    async def act(x: Any) -> str:
        b.done.append(("free", str(x)))
        return "done"

    return function_tool(act, name_override="free", strict_mode=False)


@trial
async def a_secret_is_hidden_where_the_tool_is_gone(b: Bench) -> None:
    async def act(x: Annotated[int, Secret]) -> str:
        return "done"

    tool = function_tool(act, name_override="pay", needs_approval=True)
    agent = b.agent(function_call("pay", {"x": 424_242}, call_id="c"), tools=[tool])
    journal = b.journal()
    run = (await Runner.run(agent, "go", journal=journal)).run_id
    agent.tools = []
    [row] = await Inbox(journal).list(run=run)
    shown = await Inbox(journal).get(row.id)
    state = await RunState.load(journal, run, agent)
    assert "424242" not in f"{row} {shown} {[item.request for item in state.get_interruptions()]}"


# What is believed ---------------------------------------------------------------------------------------------------


@trial
async def a_line_that_was_changed_is_refused(b: Bench) -> None:
    journal = Bench().journal()
    agent, state = await b.paused(journal=journal)
    state.approve(state.get_interruptions()[0])
    log = journal._mine.logs[state.run_id]
    place = next(place for place, line in enumerate(log.lines) if b"pay_1" in line)
    log.lines[place] = log.lines[place].replace(b'\\"x\\":1', b'\\"x\\":7')
    with pytest.raises(LogDamaged):
        await RunState.load(journal, state.run_id, agent)
    assert await _listed_runs(journal) == [state.run_id]


async def _listed_runs(journal: Any) -> list[str]:
    return [row.run for row in await journal.runs()]


@contextmanager
def _folder() -> Generator[Path]:
    """A folder with the marks of its stores in it, and in no other place."""
    before = os.environ.get("KEYTURN_HOME")
    with tempfile.TemporaryDirectory(prefix="keyturn-mutants-") as folder:
        os.environ["KEYTURN_HOME"] = str(Path(folder) / "home")
        try:
            yield Path(folder)
        finally:
            os.environ.pop("KEYTURN_HOME")
            if before is not None:
                os.environ["KEYTURN_HOME"] = before


@trial
async def a_row_that_was_changed_is_not_shown(b: Bench) -> None:
    with _folder() as folder:
        store = SQLiteJournal(folder / "runs.db")
        _agent, state = await b.paused(journal=store)
        await store.close()
        with sqlite3.connect(folder / "runs.db") as db:
            db.execute("UPDATE requests SET body = replace(body, '1', '7')")
        store = SQLiteJournal(folder / "runs.db")
        [row] = await store.requests(Query(run=state.run_id))
        await store.close()
    assert (row.state, row.body) == ("damaged", "{}")


@trial
async def a_store_that_was_brought_back_lets_nothing_run(b: Bench) -> None:
    with _folder() as folder:
        store = SQLiteJournal(folder / "runs.db")
        agent, state = await b.paused(journal=store)
        await store.backup(folder / "copy.db")
        state.approve(state.get_interruptions()[0])
        await Runner.run(agent, state)
        await store.close()
        for left in folder.glob("runs.db*"):
            left.unlink()
        shutil.copy(folder / "copy.db", folder / "runs.db")
        store = SQLiteJournal(folder / "runs.db")
        try:
            assert await store.restored()
            with pytest.raises(StoreRestored):
                await store.claim(state.run_id, "worker", 1_000)
        finally:
            await store.close()
    assert len(b.done) == 1


@trial
async def what_a_copy_lets_run_is_in_doubt(b: Bench) -> None:
    pen = b.pen().asks(count=2)
    pen(cm.Screen("r/1.1", Verdict("ask")))
    pen.decide(pen.word())
    pen(cm.RecordRestore("its store was brought back"))
    assert (pen.state, pen.stands("r/1.1")) == ("in_doubt", "asked")
    assert pen.log.run.calls["r/1.1"].asks == 1


def lost(**proposal: Any) -> Pen:
    """A call that was approved, started and lost."""
    pen = Pen().asks(**proposal)
    pen.decide(pen.word())
    pen.start()
    pen(cm.LoseCall("r/1.0", "the process ended"))
    return pen


@trial
async def what_was_started_is_not_denied(b: Bench) -> None:
    pen = lost()
    pen.decide(pen.word("retry"))
    pen(cm.Screen("r/1.0", Verdict("deny"), on_decision=True))
    assert pen.state == "in_doubt"


@trial
async def a_probe_renews_no_approval(b: Bench) -> None:
    pen = lost(recover="probe", terms=Approval(execute_by="1s"))
    pen.now += 5_000
    pen.decide(pen.word("retry", via="probe", by=None))
    pen.passes()
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))


@trial
async def a_probe_lets_nothing_of_a_copy_run(b: Bench) -> None:
    pen = Pen().asks(recover="probe")
    pen.decide(pen.word())
    pen(cm.RecordRestore("its store was brought back"))
    pen.refuses(NotAllowed, cm.Deliver([pen.word("retry", via="probe", by=None)]))


@trial
async def what_was_said_is_under_the_mac_of_a_state(b: Bench) -> None:
    agent, state = await b.paused()
    state.approve(state.get_interruptions()[0])
    packed = state.to_json()
    packed["undelivered"] = packed["undelivered"].replace("approve", "reject")
    with pytest.raises(StateRejected):
        await RunState.from_json(agent, packed)
