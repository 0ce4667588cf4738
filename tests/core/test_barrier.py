"""A frame without a barrier: its model goes on talking while calls are open, and reads each result when it is there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.codec import Log
from keyturn.core.effects import pending, waiting
from keyturn.core.errors import Conflict
from keyturn.core.preview import Preview, Text
from keyturn.core.usage import NOTHING
from tests.core.samples import ALLOW, ASK, Pen, everything, reply, result, says, start, tool, user

HOUR = 3_600_000
TRIPPED = [ev.Report("g", "input", tripped=True)]


def talking(*calls: Any, **settings: Any) -> Pen:
    """A run whose model speaks by itself, and has just made these calls."""
    pen = Pen()
    pen(start(barrier=False, **settings))
    if calls:
        pen(reply(*calls))
    return pen


def outputs(pen: Pen) -> list[str]:
    return [str(item["output"]) for item in pen.root().items if isinstance(item, dict) and "output" in item]


# ------------------------------------------------------------------------------------------------------------ talking


def test_nobody_asks_its_model_and_it_speaks_all_the_same() -> None:
    pen = talking(max_turns=1)
    for turn in range(3):
        assert pen.does() == []
        pen(reply())
        assert (pen.root().phase, pen.root().turn, pen.run.turns) == ("model", turn + 1, turn + 1)


def test_a_reply_is_recorded_while_calls_of_earlier_replies_wait() -> None:
    pen = talking(tool("c0", "ask"), tool("c1"))
    pen(reply())
    pen(reply(tool("c0", "ask"), tool("c1", "")))
    assert list(pen.run.calls) == ["r/1.0", "r/1.1", "r/3.0", "r/3.1"]
    assert sorted(pen.does()) == ["run r/1.1", "screen r/3.1"]
    assert pen.root().open == 4
    assert pen.copy().run == pen.run


def test_a_reply_is_for_the_turn_in_which_it_was_begun() -> None:
    pen = talking(tool("c0", "ask"))
    pen.refuses(Conflict, reply(turn=0))
    assert pen(reply(turn=1))


def test_results_are_read_in_the_order_in_which_they_settle() -> None:
    pen = talking(tool("c0"), tool("c1", "ask"), tool("c2"))
    for call in ("r/1.2", "r/1.0"):
        pen.begin(call)
        pen.end(call, f"out {call}")
    pen(reply())
    pen.decide("approve", "r/1.1")
    pen.begin("r/1.1")
    pen.end("r/1.1", "out r/1.1")
    assert outputs(pen) == ["out r/1.2", "out r/1.0", "out r/1.1"]
    assert pen.root().items[-2:] == [says("ok"), result("c1", "out r/1.1")]
    assert (pen.run.calls, pen.root().calls, pen.root().open) == ({}, [], 0)


def test_what_is_settled_costs_nothing_though_others_wait() -> None:
    pen = talking(tool("c0", "ask"))
    for turn in range(2, 22):
        pen(reply(tool("c1")))
        pen.begin(f"r/{turn}.0")
        pen.end(f"r/{turn}.0")
    assert (list(pen.run.calls), pen.root().calls, len(outputs(pen))) == (["r/1.0"], ["r/1.0"], 20)


def test_a_refused_call_has_its_result_at_once() -> None:
    pen = talking(tool("c0", refused=result("c0", "no")), tool("c1", "ask"))
    assert (outputs(pen), list(pen.run.calls)) == (["no"], ["r/1.1"])


def test_a_message_is_read_at_once() -> None:
    pen = talking(tool("c0", "ask"), prefix="p")
    pen(cm.AddInput("r", [user("still there?")]))
    assert (pen.root().items[-1], pen.root().queued, pen.root().tape[-1]) == (
        user("still there?"),
        [],
        user("still there?"),
    )


def test_its_tape_is_what_was_said_in_the_order_in_which_it_was_said() -> None:
    pen = talking(tool("c0"), tool("c1", "ask"), prefix="p")
    pen.begin()
    pen(reply())
    pen.end()
    pen.decide("reject", "r/1.1")
    pen.end("r/1.1", "no")
    assert pen.root().tape == pen.root().items


def test_what_runs_last_waits_for_nobody_where_there_is_no_barrier() -> None:
    pen = talking(tool("c0", last=True), tool("c1", "ask"))
    assert pen.does() == ["run r/1.0"]
    assert pen.begin()


# ---------------------------------------------------------------------------------------------------- the same gate


def test_every_law_of_the_gate_holds_without_a_barrier() -> None:
    pen = talking(tool("c0", "ask", terms=Approval(expires="1h")), tool("c1"))
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))
    late = pen.decision("approve")
    pen(cm.VoidCall("r/1.0", pen.call().proposal, "the tool changed"))
    pen.refuses(Conflict, cm.Deliver([late]))
    pen(cm.Tick(), at=2 * HOUR)
    assert (pen.state(), sorted(pen.does())) == ("expired", ["run r/1.1", "settle r/1.0"])
    pen.begin("r/1.1")
    pen(cm.LoseCall("r/1.1", "the power failed"))
    pen(reply())
    assert pen.state("r/1.1") == "in_doubt"


def test_guardrails_come_first_where_they_come_first() -> None:
    pen = talking(guarded="before")
    assert pen.does() == ["guard r"]
    pen.refuses(Conflict, reply())
    pen(cm.GuardFrame("r", []))
    assert pen(reply())
    pen = talking(tool("c0"), guarded="beside")
    assert pen.does() == ["guard r"]
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))
    pen(cm.GuardFrame("r", TRIPPED))
    assert pen.does() == ["tripped r"]


def test_a_call_that_must_be_looked_at_again_is_not_asked_about_because_the_model_went_on() -> None:
    """Its old preview is void with its approval; a later reply must not ask with nothing to look at."""
    pen = talking(tool("c0", ""), tool("c1", "ask"))
    pen(cm.VoidCall("r/1.1", pen.call("r/1.1").proposal, "changed"))
    pen(cm.Screen("r/1.0", ASK, preview=Preview((Text("old"),), basis={"it": "old"})))
    pen(cm.VoidCall("r/1.0", pen.call().proposal, "the world changed"))
    assert pen.state() == "proposed"
    pen(reply(tool("c2", "ask")))
    assert (pen.state(), "screen r/1.0" in pen.does()) == ("proposed", True)


def test_a_stale_call_that_must_be_looked_at_again_is_left_alone_too() -> None:
    terms = Approval(execute_by="30m")
    pen = talking(tool("c0", "ask", terms=terms), tool("c1", "ask"))
    pen.call().preview = Preview((Text("old"),), basis={"it": "old"})  # as where the engine looked before it asked
    pen.decide("approve")
    pen(cm.Tick(), at=HOUR)
    assert pen.state() == "proposed"
    pen(reply())
    assert pen.state() == "proposed"


def test_nothing_open_and_nothing_said_is_no_wait_for_people() -> None:
    pen = talking()
    assert (pen.does(), waiting(pen.run)) == ([], False)
    pen(reply(tool("c0", "ask")))
    assert waiting(pen.run)


# ------------------------------------------------------------------------------------------------- handoffs, the end


def test_another_agent_goes_on_while_a_call_waits() -> None:
    pen = talking(tool("c0", "ask"), tool("c1", "allow", last=True))
    pen.begin("r/1.1")
    pen(cm.HandOff("r/1.1", result("c1", "over"), "b"))
    assert (pen.root().agent, pen.root().phase, pen.run.last_agent, pen.state()) == ("b", "model", "b", "asked")
    pen(reply(tool("c0", "ask")))
    assert (pen.call().agent, pen.call("r/2.0").agent) == ("a", "b")
    pen.decide("approve")
    pen.begin()
    pen.end(output="late")
    assert outputs(pen) == ["over", "late"]
    assert list(pen.run.calls) == ["r/2.0"]


def test_an_agent_that_handed_over_cannot_do_so_again() -> None:
    """Its other handoff is refused, whichever of the two was first."""
    pen = talking(tool("c0", "allow", last=True), tool("c1", "allow", last=True))
    pen.begin("r/1.0")
    pen.begin("r/1.1")
    pen(cm.HandOff("r/1.0", result("c0", "over"), "b"))
    pen.refuses(Conflict, cm.HandOff("r/1.1", result("c1", "over"), "c"))
    assert (pen.root().agent, pen.state("r/1.1")) == ("b", "started")


def test_an_agent_is_switched_where_its_model_goes_on_talking() -> None:
    """No call is needed for it, what is open stays its agent's, and a frame with a barrier takes no such word."""
    pen = talking(tool("c0", "ask"))
    pen(cm.SwitchAgent("r", "b"))
    pen(cm.SwitchAgent("r", "b"))
    assert (pen.root().agent, pen.call().agent, pen.root().before) == ("b", "a", ("a",))
    other = Pen()
    other(start())
    other.refuses(Conflict, cm.SwitchAgent("r", "b"))


def test_a_nested_agent_of_a_talking_frame_has_a_barrier_of_its_own() -> None:
    pen = talking(tool("outer"))
    pen.begin()
    pen(cm.OpenFrame("r/1.0", "a/b", [user("in")], 5))
    pen(reply())
    assert pen.does() == ["model r/1.0"]
    pen(reply(tool("c0", "ask"), frame="r/1.0"))
    pen.refuses(Conflict, reply(frame="r/1.0"))
    pen(reply())
    pen.decide("reject", "r/1.0/1.0")
    pen.end("r/1.0/1.0")
    pen(reply(frame="r/1.0"))
    pen(cm.JudgeFrame("r/1.0", final=True, output="x", item=result("outer", "x")))
    assert (outputs(pen)[-1], list(pen.run.frames), pen.run.calls) == ("x", ["r"], {})


def test_its_answer_is_not_judged() -> None:
    talking().refuses(Conflict, cm.JudgeFrame("r", final=True, output="x"))


def test_it_ends_when_nothing_is_open() -> None:
    """What is open would be dropped with the run, and nobody would be asked what became of it."""
    for act in ("asked", "started", "in_doubt"):
        pen = talking(tool("c0", "ask" if act == "asked" else "allow"))
        if act != "asked":
            pen.begin()
        if act == "in_doubt":
            pen(cm.LoseCall("r/1.0", "lost"))
        pen.refuses(Conflict, cm.CloseRun("bye", []))
    pen = talking(tool("c0"))
    pen.begin()
    pen.end()
    pen(cm.CloseRun("bye", [says("bye")]))
    assert (pen.run.status, pen.run.output, pen.root().items[-1]) == ("finished", "bye", says("bye"))


# -------------------------------------------------------------------------------------------------------- crashes


@given(st.data())
def test_nothing_is_lost_wherever_the_log_is_cut(data: st.DataObject) -> None:
    """Cut at each commit, the run goes on: every call that was proposed has its one result in the end."""
    pen = talking()
    for _ in range(data.draw(st.integers(1, 8))):
        gates = data.draw(st.lists(st.sampled_from(["allow", "ask", ""]), max_size=3))
        pen(reply(*(tool(f"c{place}", gate) for place, gate in enumerate(gates))))
        for call in list(pen.run.calls):
            act = data.draw(st.sampled_from(["leave", "go on"]))
            if act == "go on":
                settle(pen, call, finish=data.draw(st.booleans()))
    lines = pen.log.lines()
    for count in range(1, len(lines) + 1):
        cut = Pen(Log.read(lines[:count]))
        happened = [event for step in cut.log.steps for event in step.events]
        made = sum(len(event.proposals) for event in happened if isinstance(event, ev.ReplyRecorded))
        for name in [call.id for call in cut.run.groups["started"].values()]:
            cut(cm.LoseCall(name, "the process ended"))
        for name in list(cut.run.calls):
            settle(cut, name)
        assert (cut.run.calls, cut.root().open, len(outputs(cut))) == ({}, 0, made)
        assert everything(cut.copy().run) == everything(cut.run)
        cut(cm.CloseRun("bye", []))


def settle(pen: Pen, call: str, finish: bool = True) -> None:
    """Take a call as far as it goes."""
    if pen.state(call) == "proposed":
        pen(cm.Screen(call, ALLOW))
    if pen.state(call) in ("asked", "in_doubt"):
        pen.decide("approve" if pen.state(call) == "asked" else "retry", call)
    if pen.state(call) != "started":
        pen.begin(call)
    if finish:
        pen.end(call)


@pytest.mark.parametrize("turns", [3, 60])
def test_what_waits_does_not_make_each_turn_dearer(turns: int) -> None:
    """The calls of a reply are looked at, not those of all replies before it."""
    pen = talking(*(tool(f"w{place}", "ask") for place in range(5)))
    for _ in range(turns):
        events = pen(reply(tool("c0", "ask")))
        assert len(events) == 2


def test_a_call_that_the_provider_runs_holds_back_no_call_that_comes_last() -> None:
    pen = Pen()
    pen(cm.Start("run", "salt", "hi", {}, "a", [user("hi")], None))
    calls = [{"type": "function_call", "call_id": f"c{place}", "name": "t", "arguments": "{}"} for place in (0, 1)]
    made = [
        ev.Proposal("function", "t", f"c{place}", place, "t1", gate="allow", last=True, by_provider=place == 1)
        for place in (0, 1)
    ]
    pen(cm.RecordReply("r", calls, made, NOTHING))
    assert ("run", "r/1.0") in pending(pen.run)
