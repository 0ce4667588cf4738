"""The automaton of the checker: what the core may write passes, and each broken promise is found and named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from keyturn.audit.calls import Broken, canonical_text
from keyturn.audit.log import LogAutomaton
from keyturn.audit.rows import DerivedRows
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.codec import Log
from keyturn.core.digest import canonical
from keyturn.core.policy import Approval
from keyturn.core.run import call_digest
from tests.core.samples import Pen, asked, grant, nested, reply, result, tool
from tests.core.world import World, complete, crash

CALL = "r/1.0"
Log_ = list[ev.Step]


def broken(steps: Log_) -> Broken | None:
    """The first promise that a log breaks."""
    automaton = LogAutomaton("run")
    rows = DerivedRows(automaton)
    for step in steps:
        try:
            automaton.read(step)
        except Broken as found:
            return found
        rows.feed(step)
    return None


# What the core writes ------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_what_the_core_writes_passes_and_so_does_what_goes_on_after_any_crash(seed: int) -> None:
    world, pen = World(seed), Pen()
    pen(world.begin())
    complete(pen, world)
    assert broken(pen.log.steps) is None
    lines = pen.log.lines()
    for count in range(1, len(lines) + 1, 3):
        cut = Pen(Log.read(lines[:count]))
        crash(cut)
        complete(cut, world)
        assert broken(cut.log.steps) is None


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    )
)
def test_two_ways_of_writing_a_value_agree(value: Any) -> None:
    """The checker's canonical text is the library's and the core's is its own: they must be one, to the byte."""
    assert canonical_text(value) == canonical(value)


# What it never writes -----------------------------------------------------------------------------------------------


def decided(pen: Pen, verdict: str = "approve", **more: Any) -> ev.CallDecided:
    """A decision of the call as it is shown, as an event."""
    settings_ = {"by": "ada", "digest": call_digest(pen.run, pen.call()), "at": pen.now, **more}
    return ev.CallDecided(ev.Decision(CALL, verdict, **settings_))


def after(pen: Pen, *events: ev.AnyEvent, at: int = 0) -> Log_:
    """The log of a run and one more step that no gate would write."""
    return [*pen.log.steps, ev.Step(pen.now + at, list(events))]


def started() -> Pen:
    pen = asked()
    pen.decide("approve")
    pen.begin()
    return pen


def finished() -> Pen:
    pen = asked(tool("c0", "ask"), tool("c1", "ask"))
    pen.decide("approve")
    pen.begin()
    pen.end()
    return pen


def lost() -> Pen:
    pen = started()
    pen(cm.LoseCall(CALL, "gone"))
    return pen


def on(**terms: Any) -> Pen:
    return asked(tool("c0", "ask", terms=Approval(**terms)))


def by_grant(steps_of: Callable[[Pen], list[ev.AnyEvent]], **terms: Any) -> Log_:
    """A call that a standing decision covers by the event's own word."""
    pen = asked(tool("c0", ""))
    return after(pen, ev.GrantGiven(grant("g", **terms)), *steps_of(pen))


def covered(pen: Pen) -> list[ev.AnyEvent]:
    return [ev.CallScreened(CALL, "allow", by="grant:g"), ev.GrantUsed("g", CALL)]


def twice_covered() -> Log_:
    pen = asked(tool("c0", ""), tool("c1", ""))
    second = [ev.CallScreened("r/1.1", "allow", by="grant:g"), ev.GrantUsed("g", "r/1.1")]
    return after(pen, ev.GrantGiven(grant("g", uses=1)), *covered(pen), *second)


def voided_and_allowed() -> Log_:
    pen = asked()
    anew = replace(pen.call().proposal, tool="t2")
    return after(pen, ev.CallVoided(CALL, anew, "changed"), ev.CallScreened(CALL, "allow"))


def from_before() -> Log_:
    """A decision that was given before its call had to ask again."""
    pen = asked()
    before = decided(pen)
    pen(cm.VoidCall(CALL, pen.call().proposal, "changed"), at=pen.now + 50)
    return after(pen, before)


def guarded(*reports: ev.Report) -> Log_:
    pen = asked(guarded="beside")
    pen.decide("approve")
    if reports:
        pen(cm.GuardFrame("r", list(reports)))
    return after(pen, ev.CallStarted(CALL))


def untripped() -> Log_:
    pen = asked(guarded="beside")
    pen(cm.GuardFrame("r", [ev.Report("g", "input", tripped=True)]))
    return after(pen, ev.GuardrailReported("r", [ev.Report("g", "input")]))


def rechecked() -> Log_:
    pen = asked()
    pen(cm.Deliver([pen.decision("approve")], recheck=True))
    return after(pen, ev.CallStarted(CALL))


def too_soon() -> Log_:
    pen = asked(tool("c0", "allow", last=True), tool("c1", "ask"))
    return after(pen, ev.CallStarted(CALL))


def dropped() -> Log_:
    pen = nested(tool("c0"))
    pen(cm.StartCall("r/1.0/1.0", "t1"))
    return after(pen, ev.FrameClosed(CALL, error="Failed"), ev.CallFinished(CALL, result("outer"), failed=True))


def unanswered() -> Log_:
    pen = nested()
    pen(reply(frame=CALL))
    return after(pen, ev.FrameClosed(CALL, output="ok"))


def unsaid() -> Log_:
    pen = nested()
    return after(pen, ev.FrameClosed(CALL, output="ok"), ev.CallFinished(CALL, result("outer")))


def over(event: ev.AnyEvent) -> Log_:
    pen = asked()
    pen.decide("approve")
    pen(cm.Cancel(by="ada"))
    return after(pen, event)


def said_again() -> Log_:
    """One decision, of a call that asked, was voided and asks the same again."""
    pen = asked()
    first = decided(pen)
    pen.decide("approve", by="ada")
    pen(cm.VoidCall(CALL, pen.call().proposal, "again"))
    return after(pen, first)


def answer(frame: str = "r") -> ev.ReplyRecorded:
    return ev.ReplyRecorded(frame, [{"type": "message", "role": "assistant", "content": []}])


BROKEN: dict[str, tuple[str, Callable[[], Log_]]] = {
    "started while it was asked about": ("I1", lambda: after(asked(), ev.CallStarted(CALL))),
    "started without a verdict": ("I1", lambda: after(asked(tool("c0", "")), ev.CallStarted(CALL))),
    "decided too late": ("I1", lambda: after(pen := on(expires="50ms"), decided(pen, at=pen.now + 51), at=51)),
    "voted too late": (
        "I1",
        lambda: after(pen := on(expires="50ms", quorum=2), ev.VoteCast(decided(pen, at=pen.now + 51).decision), at=51),
    ),
    "decided by one of two": ("I1", lambda: after(pen := on(quorum=2), decided(pen))),
    "rejected by one of two": ("I1", lambda: after(pen := on(deny_quorum=2), decided(pen, "reject"))),
    "decided by a stranger": ("I1", lambda: after(pen := on(users=("bob",)), decided(pen))),
    "decided without its reason": ("I1", lambda: after(pen := on(reason="required"), decided(pen))),
    "started when stale": (
        "I1",
        lambda: after(pen := on(execute_by="50ms"), decided(pen), ev.CallStarted(CALL), at=60),
    ),
    "a grant used too often": ("I1", twice_covered),
    "a grant used and not counted": ("I1", lambda: by_grant(lambda pen: covered(pen)[:1])),
    "a grant counted and not used": ("I1", lambda: by_grant(lambda pen: covered(pen)[1:])),
    "a grant that is over": ("I1", lambda: by_grant(covered, expires_at=0)),
    "a grant for another tool": ("I1", lambda: by_grant(covered, tool="t2")),
    "a grant of another agent": ("I1", lambda: by_grant(covered, agent="b")),
    "a grant for other arguments": ("I1", lambda: by_grant(covered, where={"n": 7})),
    "a grant that rejects": ("I1", lambda: by_grant(covered, verdict="reject")),
    "a grant that was taken back": ("I1", lambda: by_grant(lambda pen: [ev.GrantRevoked("g"), *covered(pen)])),
    "a grant that nobody gave": ("I1", lambda: after(pen := asked(tool("c0", "")), *covered(pen))),
    "started twice": ("I2", lambda: after(started(), ev.CallStarted(CALL))),
    "started again in doubt": ("I2", lambda: after(lost(), ev.CallStarted(CALL))),
    "started again after its result": ("I2", lambda: after(finished(), ev.CallStarted(CALL))),
    "a second result": ("I2", lambda: after(finished(), ev.CallFinished(CALL, result("c0")))),
    "a result before its start": ("I2", lambda: after(asked(), ev.CallFinished(CALL, result("c0")))),
    "lost and started again by itself": ("I2", lambda: after(started(), ev.CallLost(CALL, "gone", again=True))),
    "lost before its start": ("I2", lambda: after(asked(), ev.CallLost(CALL, "gone"))),
    "lost while an agent answers it": ("I2", lambda: after(nested(), ev.CallLost(CALL, "gone"))),
    "dropped while it ran": ("I2", dropped),
    "decided twice": ("I3", lambda: after(pen := asked(), decided(pen), decided(pen, by="bob"))),
    "decided while it runs": ("I3", lambda: after(pen := started(), decided(pen))),
    "one decision used twice": ("I4", said_again),
    "a grant given twice": ("I3", lambda: by_grant(lambda _pen: [ev.GrantGiven(grant("g"))])),
    "screened twice": ("I3", lambda: after(asked(), ev.CallScreened(CALL, "allow"))),
    "decided for other bytes": ("I4", lambda: after(pen := asked(), decided(pen, digest="0" * 64))),
    "voted for other bytes": ("I4", lambda: after(pen := asked(), ev.VoteCast(decided(pen, digest="0").decision))),
    "decided as it was before": ("I4", from_before),
    "other arguments and no edit": ("I4", lambda: after(pen := asked(), decided(pen, args='{"n":2}'))),
    "an edit to nothing": ("I4", lambda: after(pen := asked(), decided(pen, "edit"))),
    "an edit to no strict JSON": ("I4", lambda: after(pen := asked(), decided(pen, "edit", args='{"n":1,"n":2}'))),
    "voided and allowed": ("I4", voided_and_allowed),
    "the result of another call": ("I4", lambda: after(started(), ev.CallFinished(CALL, result("c9")))),
    "let expire too soon": ("I6", lambda: after(pen := on(expires="50ms"), decided(pen, "expire", by="clock"))),
    "the model asked while a call is open": ("I6", lambda: after(asked(), answer())),
    "answered while a call is open": ("I6", lambda: after(asked(), ev.FrameClosed("r", output="ok"))),
    "handed over while a call is open": ("I6", lambda: after(asked(), ev.HandedOff("r", "b"))),
    "started after a rejection": ("I7", lambda: after(pen := asked(), decided(pen, "reject"), ev.CallStarted(CALL))),
    "started before the policy's word": ("I7", rechecked),
    "started before the guardrails": ("I7", lambda: guarded()),
    "started after a tripwire": ("I7", lambda: guarded(ev.Report("g", "input", tripped=True))),
    "a tripwire taken back": ("I7", untripped),
    "started before its siblings": ("I7", too_soon),
    "started when the run was over": ("I7", lambda: over(ev.CallStarted(CALL))),
    "approved though in doubt": ("I7", lambda: after(pen := lost(), decided(pen))),
    "something after the end": ("I8", lambda: over(ev.CallScreened(CALL, "deny"))),
    "an agent ends and its call has no result": ("I8", unanswered),
    "an agent answers what its model never said": ("I8", unsaid),
    "the run starts again": ("I8", lambda: after(asked(), ev.RunStarted("run", "salt", "hi"))),
    "of another run": ("I8", lambda: [ev.Step(1, [ev.RunStarted("other", "salt", "hi")])]),
    "no start": ("I8", lambda: asked().log.steps[1:]),
    "an empty step": ("I8", lambda: after(asked())),
    "answered twice": ("I8", lambda: [*(pen := asked()).log.steps[:1], *(ev.Step(pen.now, [answer()]),) * 2]),
    "a call that is not there": ("I8", lambda: after(asked(), ev.CallStarted("r/9.9"))),
    "a frame that is not there": ("I8", lambda: after(asked(), answer("r/9.9"))),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_promise_is_found_and_named(what: str) -> None:
    invariant, make = BROKEN[what]
    steps = make()
    found = broken(steps)
    assert found is not None
    assert found.invariant == invariant, found.what
    assert broken(steps[:-1]) is None or what in ("of another run", "no start", "answered twice")


def test_every_invariant_of_a_log_is_among_them() -> None:
    assert {invariant for invariant, _make in BROKEN.values()} == {"I1", "I2", "I3", "I4", "I6", "I7", "I8"}
