"""Drills, events in and state out: a request that looks like any other, ends on the first word, and never runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.drill_words import drill_outcome
from keyturn.core.effects import wakes_at
from keyturn.core.errors import Conflict, Expired, KeyturnError, NotAllowed
from keyturn.core.people import Decider
from keyturn.core.policy import Verdict
from keyturn.core.request import request_of
from keyturn.core.run import call_digest
from tests.core.samples import ALLOW, Pen, grant, person, reply, start, tool, user
from tests.effort import some

CALL = "r/1.0"
ANN, BOB = person("ann", "ops"), person("bob", "ops")
ENDS = 500_000


def drill(terms: Approval | None = None, **more: Any) -> Pen:
    """A drill that waits on these terms."""
    pen = Pen()
    pen(start(drill=ENDS, **more), reply(tool("c0", "ask", terms=terms)), at=1_000)
    return pen


def true_one(terms: Approval | None = None, **more: Any) -> Pen:
    pen = Pen()
    pen(start(**more), reply(tool("c0", "ask", terms=terms)), at=1_000)
    return pen


@pytest.mark.parametrize("terms", [None, Approval(role="ops", quorum=2, expires="1m", warn_before="30s")])
def test_it_looks_like_any_other_request(terms: Approval | None) -> None:
    one, other = drill(terms), true_one(terms)
    assert request_of(one.run, one.call()) == request_of(other.run, other.call())
    assert [type(event) for step in one.log.steps for event in step.events] == [
        type(event) for step in other.log.steps for event in step.events
    ]
    assert (one.does(), other.does()) == ([], [])


@pytest.mark.parametrize(
    ("verdict", "passed"), [("approve", False), ("edit", False), ("reject", True), ("answer", True)]
)
def test_the_first_word_ends_it_and_nothing_is_owed(verdict: str, passed: bool) -> None:
    pen = drill(Approval(role="ops", quorum=3, deny_quorum=3))
    more: dict[str, Any] = {"edit": {"args": '{"n":2}'}, "answer": {"output": "so"}}.get(verdict, {})
    [event] = pen.decide(verdict, by=ANN, **more)
    assert isinstance(event, ev.DrillEnded)
    assert (event.passed, event.decision.by, event.decision.verdict) == (passed, "ann", verdict)
    assert (pen.run.status, pen.run.calls, pen.does(), pen.run.let) == ("finished", {}, [], [])
    assert pen.copy().run.status == "finished"
    assert wakes_at(pen.run) is None


def test_a_grant_that_comes_along_is_dropped_and_said_to_be() -> None:
    pen = drill()
    events = pen(cm.Deliver([pen.decision("approve", by=ANN)], [grant("g", by=ANN), grant("h", by=ANN)]))
    assert [type(event) for event in events] == [ev.DrillEnded]
    assert isinstance(events[0], ev.DrillEnded)
    assert (events[0].grants, pen.run.grants, pen.run.grant_uses) == (2, {}, {})


def test_who_may_not_decide_it_does_not_end_it() -> None:
    pen = drill(Approval(role="ops", not_requester=True, min_look="5s"), requester="bob")
    claimed = Decider("ann", ("ops",))
    for who in (person("eve"), BOB, claimed):
        pen.refuses(NotAllowed, cm.Deliver([pen.decision("reject", by=who)]))
    pen.refuses(NotAllowed, cm.Deliver([pen.decision("approve", by=ANN)]))  # nobody has looked at it
    pen.refuses(Conflict, cm.Deliver([pen.decision("reject", by=ANN, digest="0" * 64)]))
    pen.refuses(NotAllowed, cm.Deliver([pen.decision("approve", via="on_approval")]))
    assert pen.decide("reject", by=ANN)


def test_marks_and_looks_are_as_of_any_other() -> None:
    pen = drill()
    shown = call_digest(pen.run, pen.call())
    assert pen(cm.MarkCall(CALL, shown, "claim", ANN, 2_000_000)) == [
        ev.CallMarked(CALL, "claim", ANN, 2_000_000, shown)
    ]
    assert pen(cm.RecordLook(CALL, shown, ANN)) == [ev.CallLooked(CALL, ANN, shown)]
    assert pen(cm.AddInput("r", [user("more")]))
    assert pen.does() == []


def everything(pen: Pen) -> list[cm.RunCommand]:
    """All that could move a call towards its tool."""
    raw, made = tool("c0", "allow")
    return [
        cm.StartCall(CALL, "t1"),
        cm.Screen(CALL, ALLOW),
        cm.Screen(CALL, ALLOW, on_decision=True),
        cm.Screen(CALL, Verdict("ask"), on_decision=True),
        cm.VoidCall(CALL, made, "changed"),
        cm.NeedInput(CALL, {"q": 1}),
        cm.FinishCall(CALL, {"type": "function_call_output", "call_id": "c0", "output": "x"}),
        cm.LoseCall(CALL, "lost"),
        cm.OpenFrame(CALL, "b", [], 10),
        cm.HandOff(CALL, "b", {}),
        reply((raw, made)),
        cm.BorrowGrant(grant("g", by=ANN), "home"),
        cm.CloseRun("done", []),
        cm.CloseFrame("r", {}, "x"),
        cm.JudgeFrame("r", final=True, output="x"),
        cm.WroteSession("r", 1),
        cm.Revoke("g", ANN),
    ]


@pytest.mark.parametrize("state", ["open", "approved", "failed", "restored", "cancelled", "resumed"])
def test_nothing_starts_it_in_any_state(state: str) -> None:
    pen = drill()
    before: dict[str, list[cm.RunCommand]] = {
        "failed": [cm.Fail("x")],
        "restored": [cm.RecordRestore("copy", "n1")],
        "cancelled": [cm.Cancel()],
        "resumed": [cm.RecordRestore("copy", "n1"), cm.Resume(5)],
    }
    for command in before.get(state, []):
        pen(command)
    if state == "approved":
        pen.decide("approve", by=ANN)
    for command in everything(pen):
        try:
            events = pen(command)
        except KeyturnError:
            events = []
        assert events == [], f"{command} did something"
    assert (pen.does(), pen.run.started, pen.run.let) == ([], 0, [])
    if state in ("open", "failed", "restored", "resumed"):
        assert isinstance(pen.decide("approve", by=ANN)[0], ev.DrillEnded)
        assert pen.does() == []


def test_the_fused_step_of_a_start_is_refused_whole() -> None:
    pen = drill()
    fused = [cm.Deliver([pen.decision("approve", by=ANN)]), cm.Screen(CALL, ALLOW, on_decision=True)]
    with pytest.raises(Conflict):
        pen.copy()(*fused, cm.StartCall(CALL, "t1"))


def test_a_call_of_it_that_does_not_ask_is_not_recorded() -> None:
    pen = Pen()
    pen(start(drill=ENDS), at=1_000)
    pen.refuses(Conflict, reply(tool("c0", "allow")))
    pen = Pen()
    pen(start(drill=ENDS), reply(tool("c0", "")), at=1_000)
    pen.refuses(Conflict, cm.Screen(CALL, ALLOW))
    pen(cm.Screen(CALL, Verdict("ask", "over a limit", by="policy:2")))
    assert (pen.call().reason, pen.state()) == ("over a limit", "asked")


def test_who_comes_second_is_told_kindly() -> None:
    pen = drill()
    shown = pen.decision("approve", by=ANN)
    late = pen.decision("reject", by=BOB)
    pen(cm.Deliver([shown]))
    assert pen(cm.Deliver([shown])) == [], "repeated, it is harmless"
    assert pen.refuses(Conflict, cm.Deliver([late])).winner == "ann"
    for command in (cm.Withdraw(CALL, ANN), cm.MarkCall(CALL, "d", "claim", ANN), cm.Cancel(), cm.Resume()):
        assert "this was a drill" in str(pen.refuses(Conflict, command))


def test_it_ends_quietly_in_its_time() -> None:
    pen = drill()
    assert wakes_at(pen.run) == ENDS
    assert pen(cm.Tick(), at=ENDS - 1) == []
    late = pen.decision("approve", by=ANN)
    [event] = pen(cm.Tick(), at=ENDS)
    assert isinstance(event, ev.DrillEnded)
    assert (event.passed, event.decision.verdict, event.decision.via) == (None, "expire", "clock")
    pen.refuses(Expired, cm.Deliver([late]))
    assert pen(cm.Tick(), at=ENDS + 1) == []


@pytest.mark.parametrize("what", ["reject", "ask_again", "escalate"])
def test_it_ends_with_the_request_that_was_shown_where_its_terms_run_out_as_well(what: Any) -> None:
    """Found by the simulator: the step that ended it also asked again, and its row showed another request."""
    more: dict[str, Any] = {"escalate_to": ["cyd"]} if what == "escalate" else {}
    pen = drill(Approval(users=["ann"], expires="1m", on_expiry=what, **more))
    shown = pen.decision("reject", by=ANN).digest
    [event] = pen(cm.Tick(), at=ENDS)
    assert isinstance(event, ev.DrillEnded)
    assert (event.decision.verdict, event.decision.digest) == ("expire", shown)


@pytest.mark.each
@pytest.mark.parametrize("what", ["reject", "ask_again", "escalate"])
def test_the_terms_run_out_as_for_any_other(what: Any) -> None:
    more: dict[str, Any] = {"escalate_to": ["cyd"]} if what == "escalate" else {}
    one, other = (make(Approval(users=["ann"], expires="1m", on_expiry=what, **more)) for make in (drill, true_one))
    mine, theirs = one(cm.Tick(), at=62_000), other(cm.Tick(), at=62_000)
    if what == "reject":
        assert isinstance(mine[0], ev.DrillEnded)
        assert isinstance(theirs[0], ev.CallDecided)
    else:
        assert mine == theirs
        assert one.does() == []


def test_what_is_said_is_kind_and_of_drills_only() -> None:
    assert drill_outcome("approve") == ""
    assert "Thank you" in drill_outcome("drill_passed")
    assert "no harm is done" in drill_outcome("drill_failed")


def beside(pen: Pen, draw: Any) -> list[cm.RunCommand]:
    """Something that is said to a run or done with it and is no decision."""
    shown = call_digest(pen.run, pen.call())
    who = draw(st.sampled_from([ANN, BOB, person("eve"), Decider("ann", ("ops",))]))
    until = draw(st.sampled_from([None, pen.now + 5_000]))
    return [
        draw(
            st.sampled_from(
                [
                    cm.MarkCall(CALL, shown, draw(st.sampled_from(["claim", "snooze"])), who, until),
                    cm.RecordLook(CALL, shown, who),
                    cm.AddInput("r", [user("more")]),
                    cm.Tick(),
                    cm.Fail("x"),
                    cm.Resume(draw(st.sampled_from([None, 7]))),
                    cm.RecordRestore("copy", draw(st.sampled_from(["n1", "n2"]))),
                    cm.SaveContext({"n": 1}),
                    cm.Withdraw(CALL, who),
                ]
            )
        )
    ]


TERMS = st.sampled_from(
    [
        None,
        Approval(role="ops", quorum=2),
        Approval(role="ops", expires="20s", warn_before="10s", on_expiry="ask_again", max_asks=3),
        Approval(role="ops", expires="20s", on_expiry="escalate", escalate_to=["chief"]),
        Approval(users=["ann"], min_look="1s"),
    ]
)


@given(st.data())
@settings(max_examples=some(150), deadline=None)
def test_until_the_first_word_it_does_as_its_true_twin_does(data: st.DataObject) -> None:
    terms = data.draw(TERMS)
    one, twin = drill(terms), true_one(terms)
    for _ in range(data.draw(st.integers(0, 8))):
        if CALL not in twin.run.calls or twin.state() != "asked":
            break
        one.now = twin.now = min(one.now + data.draw(st.sampled_from([0, 900, 11_000])), ENDS - 1)
        commands = beside(twin, data.draw)
        said: list[list[ev.AnyEvent] | type[KeyturnError]] = []
        for pen in (one, twin):
            try:
                said.append(pen(*commands))
            except KeyturnError as error:
                said.append(type(error))
        mine, theirs = said
        if isinstance(theirs, list) and any(isinstance(event, ev.CallDecided) for event in theirs):
            assert isinstance(mine, list)
            assert isinstance(mine[-1], ev.DrillEnded)
            return
        assert mine == theirs
        assert one.does() == []
        if twin.state() == "asked":
            assert request_of(one.run, one.call()) == request_of(twin.run, twin.call())
    if CALL not in twin.run.calls or twin.state() != "asked":
        return
    verdict = data.draw(st.sampled_from(["approve", "reject"]))
    who = data.draw(st.sampled_from([ANN, BOB, person("eve"), person("cyd", "chief")]))
    ends: list[str] = []
    for pen in (one, twin):
        try:
            events = pen.decide(verdict, by=who)
            ends.append("said" if events else "nothing")
        except KeyturnError as error:
            ends.append(type(error).__name__)
    assert ends[0] == ends[1], "who may decide a true one may decide a drill"
    if ends[0] == "said":
        assert (one.run.status, one.does(), one.run.started) == ("finished", [], 0)
        assert one.copy().run.status == "finished"
