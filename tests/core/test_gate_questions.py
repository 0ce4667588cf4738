"""Calls that need an answer: who may say what, to which question, and what it lets happen."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn.audit.log import read_step
from keyturn.audit.run import AuditedRun
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.errors import BadJson, Conflict, NotPending
from keyturn.core.policy import Verdict
from tests.core.auditor import Auditor
from tests.core.samples import ALLOW, DENY, Pen, asked, everything, grant, nested, person, tool

CALL, OTHER = "r/1.0", "r/1.1"
WHICH = cm.NeedInput(CALL, {"question": "which?"})


def needing(gate: str = "allow", **more: Any) -> Pen:
    """A call that was started and needs an answer, beside one that waits and keeps the turn open."""
    pen = asked(tool("c0", gate, **more), tool("c1", "ask", tool="t2"))
    if gate == "ask":
        pen.decide("approve", by="ada")
    pen.begin()
    pen(WHICH)
    return pen


def audited(pen: Pen) -> None:
    """Read the log as the reference does, and as `keyturn check` does: neither finds a fault."""
    Auditor().read(pen.log.steps)
    audit = AuditedRun(pen.run.id)
    for step in pen.log.steps:
        read_step(audit, step)


def again(pen: Pen, output: Any = "this") -> None:
    """Answer, go on, and need the very same again."""
    pen.decide("answer", by="bob", output=output)
    pen.begin()
    pen(WHICH)


# --------------------------------------------------------------------------------------------------- asked and answered


def test_a_call_waits_until_it_is_answered_and_then_goes_on() -> None:
    pen = needing()
    assert (pen.state(), pen.call().kind, pen.does()) == ("needs", "external", [])
    pen.decide("answer", by="bob", output={"this": 1})
    pen(*pen.screened())
    call = pen.call()
    assert (call.state, call.supplied and call.supplied.output, pen.does()) == (
        "supplied",
        {"this": 1},
        [f"run {CALL}"],
    )
    pen.begin()
    pen.end()
    assert pen.state() == "finished"


def test_a_refusal_is_told_to_the_tool_and_ends_nothing_by_itself() -> None:
    pen = needing()
    pen.decide("reject", message="not today")
    pen(*pen.screened())
    assert (pen.state(), pen.does()) == ("supplied", [f"run {CALL}"])


@pytest.mark.parametrize("verdict", ["approve", "edit", "ran", "did_not_run", "retry"])
def test_a_question_takes_no_other_word(verdict: str) -> None:
    pen = needing()
    pen.refuses(NotPending, cm.Deliver([pen.decision(verdict, args='{"n":2}' if verdict == "edit" else None)]))


def test_only_what_was_started_asks() -> None:
    pen = asked(tool("c0", "ask"))
    pen.refuses(Conflict, WHICH)
    pen.decide("approve")
    pen.refuses(Conflict, WHICH)
    pen.begin()
    pen(WHICH)
    pen.refuses(Conflict, WHICH)


def test_what_a_nested_agent_answers_asks_nothing_itself() -> None:
    nested(tool("inner")).refuses(Conflict, WHICH)


def test_a_question_to_which_no_answer_could_be_bound_is_refused() -> None:
    for wrong in ({"q": float("nan")}, "\ud800", {1: 2}, object()):
        pen = asked(tool("c0"))
        pen.begin()
        pen.refuses(BadJson, cm.NeedInput(CALL, wrong))
        pen.refuses(BadJson, cm.NeedInput(CALL, None, wrong))


def test_a_question_of_a_run_that_is_over_leaves_a_doubt() -> None:
    pen = asked(tool("c0"))
    pen.begin()
    pen(cm.Cancel(person("ada")))
    [lost] = pen(WHICH)
    assert isinstance(lost, ev.CallLost)
    assert pen.does() == []


def test_nobody_answers_a_run_that_was_cancelled() -> None:
    pen = needing()
    made = pen.decision("answer", output="this")
    pen(cm.Cancel(person("ada")))
    pen.refuses(Conflict, cm.Deliver([made]))


def test_a_failed_run_is_asked_and_answered_all_the_same() -> None:
    pen = asked(tool("c0"))
    pen.begin()
    pen(cm.Fail("Error"))
    pen(WHICH)
    pen.decide("answer", output="this")
    assert pen.does() == [f"screen {CALL}"]


# ----------------------------------------------------------------------------------------- the answer to which question


def test_an_answer_is_for_one_question() -> None:
    pen = asked(tool("c0", "allow"))
    digests: list[str] = []
    for question, state in (({"q": 1}, None), ({"q": 2}, None), ({"q": 2}, 1), ({"q": 2}, 1)):
        pen.begin()
        pen(cm.NeedInput(CALL, question, state))
        digests.append(pen.decision("answer").digest)
        pen.decide("answer")
    assert len(set(digests)) == 4, "also when the same is asked twice in one moment"


def test_an_old_answer_is_none_to_a_new_question() -> None:
    pen = needing()
    old = pen.decision("answer", by="bob", output="this")
    pen(cm.Deliver([old]))
    pen.begin()
    pen(WHICH)
    before = everything(pen.run)
    assert pen(cm.Deliver([old])) == [], "to say once more what was said is harmless"
    assert everything(pen.run) == before
    late = replace(old, decider=person("cyd"))
    pen.refuses(Conflict, cm.Deliver([late]))
    pen.refuses(Conflict, cm.Deliver([replace(old, output="that")]))


def test_the_same_answer_to_the_same_question_counts_each_time() -> None:
    pen = needing()
    for _ in range(3):
        again(pen)
    pen.decide("answer", by="bob", output="this")
    assert pen.state() == "supplied"


def test_the_first_answer_stands_and_names_who_gave_it() -> None:
    pen = needing("ask")
    mine, theirs = (pen.decision("answer", by=by, output=by) for by in ("bob", "cyd"))
    pen(cm.Deliver([mine]))
    for late in (theirs, replace(theirs, verdict="reject", output=None)):
        error = pen.refuses(Conflict, cm.Deliver([late]))
        assert (error.winner, error.decision) == ("bob", "answer")
    pen.begin()
    assert pen.refuses(Conflict, cm.Deliver([theirs])).winner == "bob"


def test_the_approval_that_led_to_a_question_can_be_repeated_and_does_nothing() -> None:
    pen = asked(tool("c0", "ask"))
    made = pen.decision("approve", by="ada")
    pen(cm.Deliver([made]))
    pen.begin()
    pen(WHICH)
    assert pen(cm.Deliver([made])) == []
    assert pen.state() == "needs"


def test_an_answer_does_not_come_back_when_the_call_asks_anew() -> None:
    pen = needing("ask", recover="retry")
    approval = pen.call().approval
    assert approval is not None
    pen.decide("answer", by="bob", output="this")
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, tool="t9"), "the tool changed"))
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, tool="t1"), "and changed back"))
    call = pen.call()
    assert (call.state, call.need, call.supplied, call.approval) == ("asked", None, None, None)
    pen.refuses(Conflict, cm.Deliver([approval]))


def test_what_led_to_a_doubt_does_not_come_back_after_it_was_tried_again() -> None:
    """A decision that was followed by another is as spent as that one."""
    pen = asked(tool("c0", "ask"))
    made = pen.decision("approve", by="ada")
    pen(cm.Deliver([made]))
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed"))
    pen.decide("retry", by="bob")
    pen(cm.VoidCall(CALL, pen.call().proposal, "it changed and changed back"))
    assert pen.state() == "in_doubt"
    pen.refuses(NotPending, cm.Deliver([made]))


# ------------------------------------------------------------------------------------------------ what stands, what not


def test_the_approval_and_the_edit_stand_over_questions() -> None:
    pen = asked(tool("c0", "ask"))
    pen.decide("edit", by="ada", args='{"n":7}')
    for _ in range(2):
        pen.begin()
        pen(WHICH)
        assert (pen.call().text, pen.call().edited) == ('{"n":7}', True)
        pen.decide("answer", by="bob", output="this")
        approval = pen.call().approval
        assert approval is not None
        assert (pen.call().text, approval.by, approval.verdict) == ('{"n":7}', "ada", "edit")
    assert pen.copy().run == pen.run


def test_an_edit_outlives_a_refused_answer() -> None:
    pen = asked(tool("c0", "ask"))
    pen.decide("edit", args='{"n":7}')
    pen.begin()
    pen(WHICH)
    pen.decide("reject")
    assert (pen.call().text, pen.call().edited) == ('{"n":7}', True)


def test_no_grant_answers() -> None:
    for verdict in ("approve", "reject"):
        pen = asked(tool("c0"), tool("c1", "ask"))
        pen.begin()
        pen(WHICH)
        pen(cm.Deliver([pen.decision(verdict, OTHER, by="ada")], [grant(verdict=verdict)]))
        assert (pen.state(), pen.run.grant_uses) == ("needs", {"g": 0})


def test_one_answer_is_enough_whatever_an_approval_takes() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(quorum=2, reason="required")))
    for name in ("ada", "bob"):
        pen.decide("approve", by=name, note="so")
    pen.begin()
    pen(WHICH)
    pen.decide("answer", by="ada", output="this")
    assert pen.state() == "supplied"


def test_a_question_never_runs_out() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(expires="1h")))
    pen.decide("approve")
    pen.begin()
    pen(WHICH)
    assert pen.call().expires_at is None
    assert pen(cm.Tick(), at=10**12) == []
    pen.decide("answer", output="this")
    assert pen.state() == "supplied"


def test_an_answer_that_is_not_used_in_time_goes_stale_and_what_was_started_is_not_forgotten() -> None:
    for recover, state in (("retry", "asked"), ("ask", "in_doubt")):
        pen = asked(tool("c0", "ask", terms=Approval(execute_by="1h"), recover=recover))
        pen.decide("approve")
        pen.begin()
        pen(WHICH)
        pen(cm.AddInput("r", []), at=10 * 3_600_000)
        pen.decide("answer", output="this")
        assert pen(cm.Tick()) == [], "what was started in time is in time"
        pen.refuses(Conflict, cm.StartCall(CALL, "t1"), at=pen.now + 3_600_001)
        pen(cm.Tick())
        assert (pen.state(), pen.call().need is None) == (state, state == "asked")


def test_the_policy_is_asked_again_before_a_call_goes_on() -> None:
    for verdict, made, state in (("answer", ALLOW, "supplied"), ("reject", DENY, "denied")):
        pen = needing()
        pen(cm.Deliver([pen.decision(verdict)]))
        assert pen.does() == [f"screen {CALL}"]
        pen.refuses(Conflict, cm.StartCall(CALL, "t1"))
        pen(*pen.screened(verdict=made))
        assert pen.state() == state


def test_a_call_lost_in_between_goes_on_with_its_answer() -> None:
    pen = needing("ask")
    pen.decide("answer", by="bob", output="this")
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed"))
    assert pen.state() == "in_doubt"
    pen.decide("retry", by="cyd")
    pen.begin()
    call = pen.call()
    assert call.supplied is not None
    assert call.approval is not None
    assert (call.supplied.output, call.approval.by) == ("this", "ada")


def test_a_harmless_call_lost_in_between_starts_again_with_its_answer() -> None:
    pen = needing(recover="retry")
    pen.decide("answer", output="this")
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed", again=True))
    assert pen.does() == [f"run {CALL}"]
    pen.begin()
    assert pen.call().supplied is not None
    pen(WHICH)
    assert pen.call().supplied is None, "the next question has no answer yet"


def test_why_a_call_asked_before_is_not_why_it_asks_now() -> None:
    pen = asked(tool("c0", ""), tool("c1", "ask"))
    pen(cm.Screen(CALL, replace(ALLOW, action="ask", reason="over the limit")))
    pen.decide("approve")
    pen.begin()
    pen(WHICH)
    assert pen.call().reason == ""


def test_a_tool_that_changes_while_its_call_asks_leaves_an_earlier_start_in_doubt() -> None:
    pen = asked(tool("c0", "ask"))
    pen.decide("approve", by="ada")
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed"))
    pen.decide("retry", by="ada")
    pen.begin()
    pen(cm.NeedInput(CALL, {"limit": 1}, wants="approval"))
    assert (pen.state(), pen.call().acted) == ("asked", True)
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, tool="t9"), "its tool was changed"))
    assert pen.state() == "in_doubt", "nobody knows what its first start did, and a person says so"
    pen.decide("did_not_run", by="bob")
    audited(pen)


def test_what_asks_on_the_terms_of_a_policy_is_audited_by_those() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(role="pay")))
    pen.decide("approve", by=person("ann", "pay"))
    pen(*pen.screened(verdict=Verdict("ask", terms=Approval(role="chief"), by="policy:p")))
    pen.decide("approve", by=person("zoe", "chief"))
    pen.begin()
    pen(cm.NeedInput(CALL, {"limit": 1}, wants="approval"))
    pen.decide("approve", by=person("zoe", "chief"))
    audited(pen)
