"""Logs that no honest gate writes: an honest run and one more line, and what the checker finds there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from keyturn.audit.calls import Broken
from keyturn.audit.log import read_step
from keyturn.audit.rows import DerivedRows
from keyturn.audit.run import AuditedRun
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.people import Decider
from keyturn.core.run import call_digest, edit_digest
from tests.core.samples import Pen, asked, grant, person, reply, tool

CALL = "r/1.0"
Steps = list[ev.Step]
Table = Mapping[str, tuple[str, Callable[[], Steps]]]


def broken(steps: Steps) -> Broken | None:
    """The first promise that a log breaks."""
    automaton = AuditedRun("run")
    rows = DerivedRows(automaton)
    for step in steps:
        try:
            read_step(automaton, step)
        except Broken as found:
            return found
        rows.feed(step)
    return None


def check_found(table: Table) -> None:
    """Each log of a table breaks the promise that it names, in its last line and in none before."""
    for what, (invariant, make) in table.items():
        steps = make()
        found = broken(steps)
        assert found is not None, f"{what}: not found"
        assert found.invariant == invariant, f"{what}: {found}"
        before = broken(steps[:-1])
        assert before is None, f"{what}: {before}"


def decision(pen: Pen, verdict: Any = "approve", *, by: str | Decider | None = "ada", **more: Any) -> ev.Decision:
    """A decision of the call as it is shown, as the core would record it."""
    call = pen.call(more.pop("call", CALL))
    settings: dict[str, Any] = {"digest": call_digest(pen.run, call), "at": pen.now}
    if "args" in more:
        settings["runs"] = edit_digest(pen.run, call, more["args"], more.get("basis"))
    settings["decider"] = person(by) if isinstance(by, str) else by
    return ev.Decision(call.id, verdict, **settings | more)


def decided(pen: Pen, verdict: Any = "approve", **more: Any) -> ev.CallDecided:
    return ev.CallDecided(decision(pen, verdict, **more))


def voted(pen: Pen, verdict: Any = "approve", **more: Any) -> ev.VoteCast:
    return ev.VoteCast(decision(pen, verdict, **more))


def after(pen: Pen, *events: ev.AnyEvent, at: int = 0) -> Steps:
    """The log of a run and one more line that no gate would write."""
    return [*pen.log.steps, ev.Step(pen.now + at, list(events))]


def on(label: str = "c0", *, facts: Mapping[str, Any] | None = None, **terms: Any) -> Pen:
    """A run whose call asks on these terms; `facts` are of its tool."""
    return asked(tool(label, "ask", terms=Approval(**terms), **(facts or {})))


def of(requester: str | None, **terms: Any) -> Pen:
    """The same, for somebody."""
    return asked(tool("c0", "ask", terms=Approval(**terms)), requester=requester)


def started(pen: Pen | None = None, verdict: str = "approve", **more: Any) -> Pen:
    pen = asked() if pen is None else pen
    pen.decide(verdict, by="ada", **more)
    pen.begin()
    return pen


def lost(pen: Pen | None = None) -> Pen:
    pen = started() if pen is None else pen
    pen(cm.LoseCall(CALL, "gone"))
    return pen


def asking(pen: Pen | None = None) -> Pen:
    """A run whose tool waits for an answer."""
    pen = started() if pen is None else pen
    pen(cm.NeedInput(CALL, {"q": 1}))
    return pen


def granted(*calls: Any, at: int = 0, **terms: Any) -> Pen:
    """A run in which ada gave a standing decision with a first call, and whose model then made these calls."""
    pen = asked()
    given = grant(**terms)
    pen(cm.Deliver([pen.decision(given.verdict, by=given.decider)], [given]), at=pen.now)
    if given.verdict == "approve":
        pen.begin()
    pen.end()
    pen(reply(*(calls or (tool("c1", "ask"),))), at=pen.now + at)
    return pen
