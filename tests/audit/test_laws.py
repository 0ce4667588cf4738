"""The automaton of the checker: what the core may write passes, and each broken promise is found and named."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from keyturn.audit.calls import canonical_text
from keyturn.audit.log import read_step
from keyturn.audit.run import AuditedRun
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.codec import Log
from keyturn.core.digest import canonical
from keyturn.core.preview import Preview
from keyturn.engine.states.fork import forked
from tests.audit.forging import (
    CALL,
    Steps,
    Table,
    after,
    asking,
    broken,
    check_found,
    decided,
    decision,
    lost,
    on,
    started,
    voted,
)
from tests.core.samples import Pen, asked, nested, reply, result, start, tool
from tests.core.world import World, complete, crash
from tests.effort import some

# What the core writes ------------------------------------------------------------------------------------------------


@settings(max_examples=some(25))
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


def finished() -> Pen:
    pen = asked(tool("c0", "ask"), tool("c1", "ask"))
    pen.decide("approve")
    pen.begin()
    pen.end()
    return pen


def voided_and_allowed() -> Steps:
    pen = asked()
    anew = replace(pen.call().proposal, tool="t2", gate="")
    return after(pen, ev.CallVoided(CALL, anew, "changed"), ev.CallScreened(CALL, "allow"))


def from_before() -> Steps:
    """A decision that was given before its call had to ask again."""
    pen = asked()
    before = decided(pen)
    pen(cm.VoidCall(CALL, pen.call().proposal, "changed"), at=pen.now + 50)
    return after(pen, before)


def guarded(*reports: ev.Report) -> Steps:
    pen = asked(guarded="beside")
    pen.decide("approve")
    pen(*pen.screened())
    if reports:
        pen(cm.GuardFrame("r", list(reports)))
    return after(pen, ev.CallStarted(CALL))


def untripped() -> Steps:
    pen = asked(guarded="beside")
    pen(cm.GuardFrame("r", [ev.Report("g", "input", tripped=True)]))
    return after(pen, ev.GuardrailReported("r", [ev.Report("g", "input")]))


def rechecked() -> Steps:
    pen = asked()
    pen.decide("approve")
    return after(pen, ev.CallStarted(CALL))


def too_soon() -> Steps:
    pen = asked(tool("c0", "allow", last=True), tool("c1", "ask"))
    return after(pen, ev.CallStarted(CALL))


def too_soon_with_question() -> Steps:
    pen = asked(tool("c0", "allow", by_provider=True), tool("c1", "ask"))
    return after(pen, ev.CallStarted(CALL))


def unreplied() -> Steps:
    return after(started(on(facts={"by_provider": True})), ev.CallFinished(CALL, result("c0")))


def dropped(*then: cm.RunCommand) -> Steps:
    pen = nested(tool("c0"))
    pen(cm.StartCall("r/1.0/1.0", "t1"), *then)
    return after(pen, ev.FrameClosed(CALL, error="Failed"), ev.CallFinished(CALL, result("outer"), failed=True))


def unanswered() -> Steps:
    pen = nested()
    pen(reply(frame=CALL))
    return after(pen, ev.FrameClosed(CALL, output="ok"))


def answered_beside() -> Steps:
    pen = asked(tool("outer"), tool("c1"))
    pen.begin()
    pen.begin("r/1.1")
    pen(cm.OpenFrame(CALL, "a/b", [], 5), reply(frame=CALL))
    return after(pen, ev.FrameClosed(CALL, output="ok"), ev.CallFinished("r/1.1", result("c1")))


def textless() -> Steps:
    raw, made = tool("c0")
    return after(Pen(begun()), ev.ReplyRecorded("r", [{**raw, "arguments": 5}], [made]))


def unsaid() -> Steps:
    pen = nested()
    return after(pen, ev.FrameClosed(CALL, output="ok"), ev.CallFinished(CALL, result("outer")))


def over(event: ev.AnyEvent) -> Steps:
    pen = asked()
    pen.decide("approve")
    pen(*pen.screened(), cm.Cancel())
    return after(pen, event)


def said_again() -> Steps:
    """One decision, of a call that asked, was voided and asks the same again."""
    pen = asked()
    first = decided(pen)
    pen.decide("approve", by="ada")
    pen(*pen.screened())
    pen(cm.VoidCall(CALL, pen.call().proposal, "again"))
    return after(pen, first)


def unscreened(event: ev.CallScreened) -> Steps:
    """A call whose tool always asks bob, and another verdict than that."""
    pen = on(users=("bob",))
    made = pen.log.steps[-1]
    shown = [replace(event, at=each.at) if isinstance(each, ev.CallScreened) else each for each in made.events]
    return [*pen.log.steps[:-1], replace(made, events=shown)]


def forged(pen: Pen, **more: Any) -> ev.CallDecided:
    """An edit whose arguments nobody could bind."""
    return ev.CallDecided(replace(decision(pen), verdict="edit", **more))


def edited() -> Pen:
    return started(verdict="edit", args='{"n":2}')


def model_before_guardrails() -> Steps:
    pen = Pen()
    pen(start(guarded="before"))
    return after(pen, answer())


def concluded() -> Pen:
    pen = Pen()
    pen(start())
    pen(reply())
    return pen


def begun() -> Log:
    pen = Pen()
    pen(start())
    return pen.log


def proposing(*items: int) -> ev.ReplyRecorded:
    """A reply whose calls are those of its items, wherever they are."""
    raw, made = tool("c0")
    return ev.ReplyRecorded("r", [raw], [replace(made, item=item) for item in items])


def settled() -> Pen:
    """A run whose model said more while its call waited, ran, and got its result."""
    pen = open_ended()
    pen(reply())
    pen(reply(tool("c1", refused=result("c1", "no"))))
    pen.decide("approve")
    pen.begin()
    pen(reply(tool("c2", "allow", last=True)))
    pen.begin("r/4.0")
    pen.end()
    pen.end("r/4.0")
    return pen


def answer(frame: str = "r") -> ev.ReplyRecorded:
    return ev.ReplyRecorded(frame, [{"type": "message", "role": "assistant", "content": []}])


def open_ended(**more: Any) -> Pen:
    """A run whose model goes on talking while its call r/1.0 waits."""
    pen = Pen()
    pen(start(barrier=False, **more))
    pen(reply(tool("c0", "ask")))
    return pen


THE_CALL: Table = {
    "started while it waited": ("I1", lambda: after(asked(), ev.CallStarted(CALL))),
    "started without a verdict": ("I1", lambda: after(asked(tool("c0", "")), ev.CallStarted(CALL))),
    "started before its question was answered": ("I1", lambda: after(asking(), ev.CallStarted(CALL))),
    "started twice": ("I2", lambda: after(started(), ev.CallStarted(CALL))),
    "started again in doubt": ("I2", lambda: after(lost(), ev.CallStarted(CALL))),
    "started again after its result": ("I2", lambda: after(finished(), ev.CallStarted(CALL))),
    "started after a rejection": ("I7", lambda: after(pen := asked(), decided(pen, "reject"), ev.CallStarted(CALL))),
    "started before its siblings": ("I7", too_soon),
    "started when the run was over": ("I7", lambda: over(ev.CallStarted(CALL))),
    "a second result": ("I2", lambda: after(finished(), ev.CallFinished(CALL, result("c0")))),
    "started before its siblings, with the question": ("I7", too_soon_with_question),
    "run by its provider, which has not replied": ("I2", unreplied),
    "a result before its start": ("I2", lambda: after(asked(), ev.CallFinished(CALL, result("c0")))),
    "the result of another call": ("I4", lambda: after(started(), ev.CallFinished(CALL, result("c9")))),
    "a result before its agent ended": ("I2", lambda: after(nested(), ev.CallFinished(CALL, result("outer")))),
    "lost before its start": ("I2", lambda: after(asked(), ev.CallLost(CALL, "gone"))),
    "lost while an agent answers it": ("I2", lambda: after(nested(), ev.CallLost(CALL, "gone"))),
    "lost and started again by itself": ("I2", lambda: after(started(), ev.CallLost(CALL, "gone", again=True))),
    "a question before its start": ("I2", lambda: after(asked(), ev.CallNeeds(CALL, {"q": 1}))),
    "decided twice": ("I3", lambda: after(pen := asked(), decided(pen), decided(pen, by="bob"))),
    "decided while it runs": ("I3", lambda: after(pen := started(), decided(pen))),
    "voted while it runs": ("I3", lambda: after(pen := started(), voted(pen))),
    "approved though in doubt": ("I7", lambda: after(pen := lost(), decided(pen))),
    "edited though it asks a question": ("I7", lambda: after(pen := asking(), decided(pen, "edit", args="{}"))),
    "one decision used twice": ("I4", said_again),
    "screened twice": ("I3", lambda: after(asked(), ev.CallScreened(CALL, "allow"))),
    "voided while it runs": ("I8", lambda: after(pen := started(), ev.CallVoided(CALL, pen.call().proposal, "new"))),
    "proposed anew under another id": (
        "I4",
        lambda: after(pen := asked(), ev.CallVoided(CALL, replace(pen.call().proposal, label="c9"), "new")),
    ),
    "proposed anew without a text": (
        "I4",
        lambda: after(pen := asked(), ev.CallVoided(CALL, replace(pen.call().proposal, args="{"), "new")),
    ),
    "voided and allowed": ("I4", voided_and_allowed),
    "a call that is not there": ("I8", lambda: after(asked(), ev.CallStarted("r/9.9"))),
}

THE_VERDICT: Table = {
    "started before the policy's word on an approval": ("I7", rechecked),
    "started before the policy's word on a retry": (
        "I7",
        lambda: after(pen := lost(), decided(pen, "retry"), ev.CallStarted(CALL)),
    ),
    "started before the policy's word on an answer": (
        "I7",
        lambda: after(pen := asking(), decided(pen, "answer"), ev.CallStarted(CALL)),
    ),
    "started though the policy denied it": (
        "I7",
        lambda: after(pen := asked(), decided(pen), ev.CallScreened(CALL, "deny"), ev.CallStarted(CALL)),
    ),
    "screened again after the policy's word": (
        "I3",
        lambda: after(pen := asked(), decided(pen), *[ev.CallScreened(CALL, "allow")] * 2),
    ),
    "allowed though its tool always asks": (
        "I1",
        lambda: unscreened(ev.CallScreened(CALL, "allow", terms=Approval(users=("bob",)))),
    ),
    "asks on other terms than its tool": ("I1", lambda: unscreened(ev.CallScreened(CALL, "ask"))),
    "shows a preview to nobody": (
        "I4",
        lambda: after(asked(tool("c0", "")), ev.CallScreened(CALL, "allow", preview=Preview(()))),
    ),
    "asked at another time": (
        "I8",
        lambda: after(pen := asked(tool("c0", "")), ev.CallScreened(CALL, "ask", at=pen.now + 9)),
    ),
    "a verdict that is none": ("I7", lambda: after(asked(tool("c0", "")), ev.CallScreened(CALL, "may"))),  # type: ignore[arg-type]  # a forged word
}

THE_BYTES: Table = {
    "decided for other bytes": ("I4", lambda: after(pen := asked(), decided(pen, digest="0" * 64))),
    "voted for other bytes": ("I1", lambda: after(pen := on(quorum=2), voted(pen, digest="0"))),
    "decided as it was before": ("I4", from_before),
    "other arguments and no edit": ("I4", lambda: after(pen := asked(), decided(pen, args='{"n":2}'))),
    "an edit to nothing": ("I4", lambda: after(pen := asked(), decided(pen, "edit"))),
    "an edit to an empty text": ("I4", lambda: after(pen := asked(), forged(pen, args=""))),
    "an edit to no strict JSON": ("I4", lambda: after(pen := asked(), forged(pen, args='{"n":1,"n":2}'))),
    "an edit bound to nothing": ("I4", lambda: after(pen := asked(), decided(pen, "edit", args="{}", runs=None))),
    "an edit bound to other arguments": (
        "I4",
        lambda: after(pen := asked(), forged(pen, args='{"n":511}', runs=decision(pen, "edit", args='{"n":111}').runs)),
    ),
    "an edit bound to other files": (
        "I4",
        lambda: after(pen := asked(), forged(pen, args="{}", basis={"a": "1"}, runs=decision(pen, args="{}").runs)),
    ),
    "an approval bound to an edit": ("I4", lambda: after(pen := asked(), decided(pen, runs="0" * 64))),
    "an edit dropped by a retry": ("I4", lambda: after(pen := lost(edited()), decided(pen, "retry"))),
    "an edit replaced by a retry": ("I4", lambda: after(pen := lost(edited()), decided(pen, "retry", args='{"n":3}'))),
    "a vote for an edit bound to nothing": (
        "I4",
        lambda: after(pen := on(quorum=2), voted(pen, "edit", args="{}", runs="")),
    ),
    "an edit of what is fixed": (
        "I4",
        lambda: after(pen := on(facts={"fixed": True}), decided(pen, "edit", args='{"n":2}')),
    ),
    "a vote to edit what is fixed": (
        "I4",
        lambda: after(pen := on(facts={"fixed": True}, quorum=2), voted(pen, "edit", args='{"n":2}')),
    ),
    "an answer to what runs elsewhere": (
        "I8",
        lambda: after(pen := on(facts={"elsewhere": True}), decided(pen, "answer")),
    ),
}

THE_RUN: Table = {
    "before the guardrails": ("I7", lambda: guarded()),
    "after a tripwire": ("I7", lambda: guarded(ev.Report("g", "input", tripped=True))),
    "a tripwire taken back": ("I7", untripped),
    "the model before the guardrails": ("I7", model_before_guardrails),
    "dropped while it ran": ("I2", dropped),
    "dropped while in doubt": ("I2", lambda: dropped(cm.LoseCall("r/1.0/1.0", "gone"))),
    "the model asked while a call is open": ("I6", lambda: after(asked(), answer())),
    "the model not asked": ("I8", lambda: after(concluded(), answer())),
    "answered while a call is open": ("I6", lambda: after(asked(), ev.FrameClosed("r", output="ok"))),
    "handed over while a call is open": ("I6", lambda: after(asked(), ev.HandedOff("r", "b"))),
    "something after the end": ("I8", lambda: over(ev.CallScreened(CALL, "deny"))),
    "an agent ends and its call has no result": ("I8", unanswered),
    "an agent ends and another call has its result": (
        "I8",
        lambda: [*(steps := unanswered())[:-1], ev.Step(9, [*steps[-1].events, ev.CallFinished("r/9.9", {})])],
    ),
    "an agent ends and its sibling has its result": ("I8", answered_beside),
    "a call whose text is none": ("I4", textless),
    "an agent answers what its model never said": ("I8", unsaid),
    "an agent begins where one is at work": ("I8", lambda: after(nested(), ev.FrameOpened(CALL, "a/c", []))),
    "an agent begins for a call that waits": ("I1", lambda: after(asked(), ev.FrameOpened(CALL, "a/b", []))),
    "results judged when there are none": ("I8", lambda: after(asked(), ev.ToolsJudged("r"))),
    "two calls of one id": ("I4", lambda: after(Pen(begun()), proposing(0, 0))),
    "a call of no reply": ("I8", lambda: after(Pen(begun()), proposing(7))),
    "the run starts again": ("I8", lambda: after(asked(), ev.RunStarted("run", "salt", "hi"))),
    "an empty line": ("I8", lambda: after(asked())),
    "a frame that is not there": ("I8", lambda: after(asked(), answer("r/9.9"))),
    "of another run": ("I8", lambda: [ev.Step(1, [ev.RunStarted("other", "salt", "hi")])]),
    "no start": ("I8", lambda: asked().log.steps[1:2]),
}

WITHOUT_A_BARRIER: Table = {
    "started while it waited": ("I1", lambda: after(open_ended(), ev.CallStarted(CALL))),
    "ended while a call is open": ("I6", lambda: after(open_ended(), ev.FrameClosed("r", output="ok"))),
    "started again after its result": ("I2", lambda: after(settled(), ev.CallStarted(CALL))),
    "a second result": ("I2", lambda: after(settled(), ev.CallFinished(CALL, result("c0")))),
}


def test_a_call_that_runs_otherwise_than_it_may_is_found() -> None:
    check_found(THE_CALL)


def test_a_verdict_that_is_passed_by_is_found() -> None:
    check_found(THE_VERDICT)


def test_other_bytes_than_were_decided_are_found() -> None:
    """Finding H3: an edit was bound to nothing."""
    check_found(THE_BYTES)


def test_an_agent_that_acts_out_of_turn_is_found() -> None:
    check_found(THE_RUN)


def test_calls_of_a_model_that_goes_on_talking_are_held_to_the_same_laws() -> None:
    check_found(WITHOUT_A_BARRIER)
    pen = settled()
    assert broken(pen.log.steps) is None
    pen(cm.CloseRun("bye", []))
    assert broken(pen.log.steps) is None


def test_an_edit_is_bound_to_the_run_that_a_fork_makes() -> None:
    pen = started(verdict="edit", args='{"n":2}')
    pen.end()
    copy = forked(pen.log, None, pen.now)
    automaton = AuditedRun(copy.run.id)
    for made in copy.steps:
        read_step(automaton, made)
    assert automaton.starts == {CALL: 1}
