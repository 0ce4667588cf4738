"""A store that was restored from a copy: what it says of what did not run is not believed, and people are asked.

H7: between the copy and its restoring anything may have happened, and nobody told this store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.effects import pending
from keyturn.core.errors import Conflict
from keyturn.core.policy import Verdict
from keyturn.core.preview import Preview, Text
from keyturn.core.run import RESTORED as STOPPED
from keyturn.core.states import GROUPS
from tests.core.samples import ALLOW, ASK, DENY, Pen, asked, everything, grant, nested, person, reply, result, tool

CALL, WHY = "r/1.0", "the store was restored from a copy"
RESTORED = cm.RecordRestore(WHY)


def at(state: str, **facts: Any) -> Pen:
    """A call in this state, beside one that keeps the turn open."""
    return REACH[state](asked(tool("c0", "allow" if state in ALLOWED else GATES.get(state, "ask"), **facts), BESIDE))


BESIDE = tool("c1", "ask", tool="t2")
ALLOWED = ("allowed", "started", "needs", "supplied", "in_doubt")
GATES = {"proposed": "", "denied": ""}


def then(*acts: Callable[[Pen], Any]) -> Callable[[Pen], Pen]:
    def made(pen: Pen) -> Pen:
        for act in acts:
            act(pen)
        return pen

    return made


NEED = cm.NeedInput(CALL, {"question": "which?"})
REACH: dict[str, Callable[[Pen], Pen]] = {
    "proposed": then(),
    "asked": then(),
    "allowed": then(),
    "approved": then(lambda pen: pen.decide("approve")),
    "edited": then(lambda pen: pen.decide("edit", args='{"n":2}')),
    "started": then(Pen.begin),
    "needs": then(Pen.begin, lambda pen: pen(NEED)),
    "supplied": then(Pen.begin, lambda pen: pen(NEED), lambda pen: pen.decide("answer", output=1)),
    "in_doubt": then(Pen.begin, lambda pen: pen(cm.LoseCall(CALL, "lost"))),
    "denied": then(lambda pen: pen(cm.Screen(CALL, DENY))),
    "rejected": then(lambda pen: pen.decide("reject")),
    "answered": then(lambda pen: pen.decide("answer", output=1)),
}
BECOMES = {
    **dict.fromkeys(("allowed", "approved", "edited", "supplied", "started"), "in_doubt"),
    "proposed": "proposed",
    "asked": "asked",
    "needs": "needs",
    "in_doubt": "in_doubt",
    **{state: state for state in ("denied", "rejected", "answered")},
}


def go_on(pen: Pen, verdict: Verdict = ALLOW) -> None:
    """What an engine with a lenient policy does without a word of anybody, to a fixed point."""
    pen(cm.Resume())
    for _ in range(20):
        todo = [effect for effect in pending(pen.run) if effect.do in ("screen", "run")]
        if not todo:
            return
        for effect in todo:
            if effect.do == "screen":
                recheck = pen.call(effect.on).recheck
                pen(cm.Screen(effect.on, verdict, on_decision=recheck))
            else:
                pen.begin(effect.on)


def test_what_each_state_becomes() -> None:
    assert set(REACH) | {"expired", "ran", "did_not_run"} == set(GROUPS)
    for state in REACH:
        pen = at(state)
        assert pen.state() == state
        pen(RESTORED)
        assert (pen.state(), pen.run.status, pen.run.error) == (BECOMES[state], "failed", STOPPED)
        assert everything(pen.copy().run) == everything(pen.run)


def test_nothing_runs_without_a_word() -> None:
    for state in REACH:
        for facts in ({}, {"recover": "retry"}):
            pen = at(state, **facts)
            pen(RESTORED)
            started = pen.run.started
            go_on(pen)
            assert pen.run.started == started, state
            assert pen.state() not in ("allowed", "started", "approved"), state


def test_a_call_that_nobody_had_judged_yet_asks_whatever_the_policy_says() -> None:
    """It may have been allowed, and have run, after the copy was made."""
    pen = at("proposed")
    pen(RESTORED, cm.Resume())
    assert f"screen {CALL}" in pen.does()
    shown = Preview((Text("as it is now"),), basis={"it": "now"})
    pen(cm.Screen(CALL, ALLOW, preview=shown))
    assert (pen.state(), pen.call().reason, pen.call().preview) == ("asked", WHY, shown)
    pen.decide("approve")
    pen(*pen.screened())
    assert pen.begin()


def test_no_grant_decides_what_may_have_run() -> None:
    pen = asked(tool("c0", ""), tool("c2", "ask"), BESIDE)
    pen(cm.Deliver([pen.decision("approve", "r/1.1", by="ada")], [grant()]))
    pen(RESTORED, cm.Resume(), cm.Screen(CALL, ASK))
    assert (pen.state(), pen.state("r/1.1")) == ("asked", "in_doubt")


def test_words_that_were_said_before_are_void() -> None:
    """H6: a proxy that sends a decision once more does not let run what ran before the store was lost."""
    for state, verdict, words in (
        ("asked", "approve", {}),
        ("asked", "edit", {"args": '{"n":2}'}),
        ("needs", "answer", {"output": 1}),
        ("in_doubt", "retry", {}),
        ("in_doubt", "ran", {"output": 1}),
    ):
        pen = at(state)
        said = pen.decision(verdict, by="ada", **words)
        pen(RESTORED, cm.Resume())
        assert pen.call().revision > 1
        pen.refuses(Conflict, cm.Deliver([said]))
        pen(cm.Deliver([pen.decision(verdict, by="ada", **words)]))
        assert pen.state() != state


def test_a_word_that_let_a_call_run_does_not_come_back() -> None:
    for verdict, words in (("approve", {}), ("edit", {"args": '{"n":2}'})):
        pen = asked(tool("c0", "ask"), BESIDE)
        said = pen.decision(verdict, by="ada", **words)
        pen(cm.Deliver([said]), RESTORED, cm.Resume())
        pen(cm.Deliver([said]))
        assert (pen.state(), pen.does()) == ("in_doubt", [])
        pen.decide("retry", by="ada")
        pen(*pen.screened())
        assert pen.begin()
        assert pen.call().text == words.get("args", '{"n":1}')


def test_voices_are_void_too_and_the_terms_stand() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(quorum=2, expires="1h")), BESIDE)
    pen.decide("approve", by="ada")
    pen(RESTORED, at=5)
    assert (pen.call().votes, pen.call().asked_at, pen.call().expires_at) == ({}, 5, 3_600_005)
    pen.decide("approve", by="bob")
    assert pen.state() == "asked"
    pen.decide("approve", by="ada")
    assert pen.state() == "approved"


def test_a_doubt_takes_as_many_people_as_the_approval_did() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(quorum=2)), BESIDE)
    for by in ("ada", "bob"):
        pen.decide("approve", by=by)
    pen(RESTORED, cm.Resume())
    pen.decide("retry", by="ada")
    assert pen.state() == "in_doubt"
    pen.decide("retry", by="bob")
    assert pen.state() == "approved"


def test_each_run_is_told_once() -> None:
    for state in REACH:
        pen = at(state)
        assert pen(RESTORED)
        assert pen(RESTORED) == []
        assert everything(pen.copy().run) == everything(pen.run)
        other = pen(cm.RecordRestore("another copy"))
        assert other[-1] == ev.RunRestored("another copy")
        assert everything(pen.copy().run) == everything(pen.run)
        pen(cm.Resume())
        assert pen(RESTORED), "it went on since"


def test_what_was_let_run_since_a_run_was_told_is_in_doubt_as_well() -> None:
    """A copy of a run that was told and decided anew has run since, though nothing of that is in the copy."""
    for state in ("asked", "in_doubt", "needs"):
        pen = at(state)
        pen(RESTORED)
        word = {"in_doubt": "retry", "needs": "answer"}.get(state, "approve")
        pen.decide(word)
        copy = pen.copy()
        assert pen.run.status == "running", "a decision resumes it"
        assert copy(RESTORED)[-1] == ev.RunRestored(WHY)
        assert (copy.state(), copy(RESTORED)) == ("in_doubt", [])


def test_what_was_said_since_a_run_was_told_is_void_as_well() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(quorum=2)), BESIDE)
    pen(RESTORED)
    pen.decide("approve", by="ada")
    assert pen(RESTORED)
    assert pen.call().votes == {}


def test_a_run_that_stopped_on_an_error_of_that_name_was_not_told() -> None:
    pen = at("approved")
    pen(cm.Fail(STOPPED))
    assert pen(RESTORED)
    assert pen.state() == "in_doubt"


def test_the_reason_of_what_is_asked_anew_is_why_it_is() -> None:
    for state in ("asked", "needs", "in_doubt"):
        pen = at(state)
        pen(RESTORED)
        assert pen.call().reason == WHY


def test_a_run_that_is_over_or_new_is_not_told() -> None:
    over = asked(tool("c0", refused=result("c0")))
    over(reply(), cm.JudgeFrame("r", final=True, output="x"))
    gone = asked()
    gone(cm.Cancel(person("ada")))
    assert (over(RESTORED), gone(RESTORED)) == ([], [])
    Pen().refuses(Conflict, RESTORED)


def test_a_run_that_failed_is_told_as_well() -> None:
    pen = at("approved")
    pen(cm.Fail("Error"), RESTORED)
    assert (pen.run.error, pen.state()) == (STOPPED, "in_doubt")


def test_a_nested_agent_goes_on_and_its_calls_are_asked_about() -> None:
    pen = nested(tool("c0"), tool("c1", "ask"))
    pen(RESTORED)
    assert (pen.state(), pen.state("r/1.0/1.0"), pen.state("r/1.0/1.1")) == ("started", "in_doubt", "asked")
    go_on(pen)
    assert (pen.state("r/1.0/1.0"), list(pen.run.frames)) == ("in_doubt", ["r", CALL])


def test_what_was_let_run_is_counted_until_somebody_says_that_it_did_not() -> None:
    pen = at("allowed")
    pen(RESTORED, cm.Resume())
    assert [let.sign for let in pen.run.let] == [1]
    pen.decide("did_not_run")
    assert [let.sign for let in pen.run.let] == [1, -1]
