"""The laws of drills: nothing of one is let run or done, and each end of one is somebody's word, or the clock's."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn.audit.calls import Broken
from keyturn.audit.log import read_step
from keyturn.audit.run import AuditedRun
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from tests.core.samples import Pen, grant, person, reply, start, tool

CALL = "r/1.0"
ANN = person("ann", "ops")
ITEM = {"type": "function_call_output", "call_id": "c0", "output": "x"}


def drilled(verdict: str = "") -> list[ev.Step]:
    pen = Pen()
    pen(start(drill=500_000), reply(tool("c0", "ask", terms=Approval(role="ops"))), at=1_000)
    if verdict:
        pen.decide(verdict, by=ANN)
    return list(pen.log.steps)


def read(steps: list[ev.Step]) -> None:
    automaton = AuditedRun("run")
    for step in steps:
        read_step(automaton, step)


@pytest.mark.parametrize("verdict", ["", "approve", "reject"])
def test_an_honest_drill_passes(verdict: str) -> None:
    read(drilled(verdict))


@pytest.mark.parametrize(
    "event",
    [
        ev.CallStarted(CALL, "w"),
        ev.CallFinished(CALL, ITEM),
        ev.GrantGiven(grant("g", by=ANN)),
        ev.CallDecided(ev.Decision(CALL, "approve", "d", 1_000, decider=ANN)),
        ev.CallScreened(CALL, "allow"),
        ev.CallVoided(CALL, tool("c0", "allow")[1], "changed"),
        ev.FrameClosed("r", "done"),
    ],
)
def test_whatever_would_run_it_is_a_violation(event: Any) -> None:
    with pytest.raises(Broken) as told:
        read([*drilled(), ev.Step(1_000, [event])])
    assert told.value.invariant == "I1"
    with pytest.raises(Broken):
        read([*drilled("approve"), ev.Step(1_000, [event])])


def test_an_end_says_what_was_said_and_by_whom() -> None:
    *before, last = drilled("approve")
    [end] = last.events
    assert isinstance(end, ev.DrillEnded)
    clock = ev.Decision(CALL, "expire", end.decision.digest, 1_000, via="clock")
    wrong = [
        replace(end, passed=True),
        replace(end, passed=None),
        replace(end, decision=replace(end.decision, digest="0" * 64)),
        replace(end, decision=replace(end.decision, decider=person("eve"))),
        ev.DrillEnded(clock),
        ev.DrillEnded(clock, passed=True),
    ]
    for each in wrong:
        with pytest.raises(Broken):
            read([*before, ev.Step(1_000, [each])])
    read([*before, ev.Step(500_000, [ev.DrillEnded(replace(clock, at=500_000))])])


def test_a_true_run_does_not_end_as_a_drill() -> None:
    pen = Pen()
    pen(start(), reply(tool("c0", "ask")), at=1_000)
    end = ev.DrillEnded(pen.decision("reject", by=ANN), passed=True)
    with pytest.raises(Broken):
        read([*pen.log.steps, ev.Step(1_000, [end])])
    assert pen(cm.Tick()) == []
