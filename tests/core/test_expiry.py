"""Time: a request that runs out is rejected, asked again a bounded number of times, or escalated once."""

from __future__ import annotations

from typing import Any

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.effects import wakes_at
from keyturn.core.errors import Conflict, Expired, NotAllowed
from tests.core.samples import Pen, asked, everything, grant, person, tool

CALL, HOUR = "r/1.0", 3_600_000
QUARTER = HOUR - HOUR // 4


def waits(**terms: Any) -> Pen:
    """A request that runs out after an hour, beside a call that keeps its turn open."""
    return asked(tool("c0", "ask", terms=Approval(expires="1h", **terms)), tool("c1", "", tool="t2"))


def tick(pen: Pen, at: int) -> list[ev.AnyEvent]:
    return pen(cm.Tick(), at=at)


def run_out(pen: Pen) -> list[ev.AnyEvent]:
    """Let exactly so much time pass that the request runs out."""
    ends = pen.call().expires_at
    assert ends is not None
    return tick(pen, ends + 1)


# ------------------------------------------------------------------------------------------------------------- warnings


def test_somebody_is_told_once_that_time_runs_out() -> None:
    pen = waits()
    assert tick(pen, QUARTER - 1) == []
    assert tick(pen, QUARTER) == [ev.ExpiryNear(CALL)]
    assert (tick(pen, QUARTER), tick(pen, HOUR)) == ([], [])
    assert (pen.state(), pen.call().warned, pen.copy().call().warned) == ("asked", True, True)


def test_how_long_before_is_the_terms_own_or_a_quarter() -> None:
    for terms, at in (
        ({"warn_before": "10m"}, HOUR - 600_000),
        ({"warn_before": "1h"}, 0),
        ({"warn_before": "9h"}, 0),
        ({}, QUARTER),
    ):
        pen = waits(**terms)
        assert pen.call().warns_at == at
        assert tick(pen, at) == [ev.ExpiryNear(CALL)]


def test_nobody_is_warned_of_what_has_run_out_already() -> None:
    assert [type(event) for event in tick(waits(), 2 * HOUR)] == [ev.CallDecided]


def test_a_run_wakes_for_the_warning_and_then_for_the_end() -> None:
    pen = waits()
    assert wakes_at(pen.run) == QUARTER
    tick(pen, QUARTER)
    assert wakes_at(pen.run) == HOUR + 1
    run_out(pen)
    assert (pen.state(), wakes_at(pen.run)) == ("expired", None)


def test_a_run_wakes_for_whatever_comes_first_and_for_nothing_that_never_ends() -> None:
    pen = asked(
        tool("c0", "ask"),
        tool("c1", "ask", terms=Approval(expires="3h", warn_before="1h")),
        tool("c2", "ask", terms=Approval(expires="1h", warn_before="1ms")),
    )
    assert wakes_at(pen.run) == HOUR - 1
    pen.decide("reject", "r/1.2")
    assert wakes_at(pen.run) == 2 * HOUR
    pen.decide("reject", "r/1.1")
    assert wakes_at(pen.run) is None
    assert wakes_at(Pen().run) is None


def test_a_run_that_is_over_wakes_for_nothing_and_one_that_failed_does() -> None:
    pen = waits()
    pen(cm.Fail("Error"))
    assert wakes_at(pen.run) == QUARTER
    pen(cm.Cancel())
    assert (wakes_at(pen.run), tick(pen, 9 * HOUR)) == (None, [])


# ------------------------------------------------------------------------------------------------------ asking again


def test_a_request_is_asked_again_so_often_and_then_rejected() -> None:
    pen = waits(on_expiry="ask_again", max_asks=3)
    for revision in (2, 3):
        now = pen.call().expires_at
        assert run_out(pen) == [ev.CallAskedAgain(CALL, "ask_again", (now or 0) + 1)]
        assert (pen.state(), pen.call().revision, pen.call().expires_at) == ("asked", revision, (now or 0) + 1 + HOUR)
    run_out(pen)
    assert (pen.state(), pen.run.decided[CALL].by) == ("expired", "clock")


def test_once_in_all_is_once() -> None:
    pen = waits(on_expiry="ask_again", max_asks=1)
    run_out(pen)
    assert pen.state() == "expired"


def test_a_long_sleep_counts_as_one_asking() -> None:
    """M2: a machine that was asleep for days asks again when it wakes, with the whole of its time."""
    pen = waits(on_expiry="ask_again")
    tick(pen, 100 * HOUR)
    assert (pen.state(), pen.call().revision, pen.call().expires_at) == ("asked", 2, 101 * HOUR)


def test_each_asking_has_a_warning_of_its_own() -> None:
    pen = waits(on_expiry="ask_again")
    tick(pen, QUARTER)
    run_out(pen)
    start = pen.call().asked_at
    assert (pen.call().warned, wakes_at(pen.run)) == (False, start + QUARTER)
    assert tick(pen, start + QUARTER) == [ev.ExpiryNear(CALL)]


def test_what_was_said_of_an_earlier_asking_counts_no_more() -> None:
    """H6: a word names the asking that it answers, and a voice for it is gone with it."""
    pen = waits(on_expiry="ask_again", quorum=2)
    late = pen.decision("approve", by="bob")
    pen.decide("approve", by="ada")
    run_out(pen)
    assert pen.call().votes == {}
    pen.refuses(Conflict, cm.Deliver([late]))
    pen.decide("approve", by="bob")
    assert pen.state() == "asked"
    pen.decide("approve", by="ada")
    assert pen.state() == "approved"


def test_a_word_that_comes_before_the_clock_has_struck_is_late_all_the_same() -> None:
    for terms in ({"on_expiry": "ask_again"}, {"on_expiry": "escalate", "escalate_to": ["zoe"]}, {}):
        pen = waits(**terms)
        made = cm.Deliver([pen.decision("approve", by="zoe")])
        pen.refuses(Expired, made, at=HOUR + 1)


def test_a_grant_decides_what_is_asked_again() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(expires="1h", on_expiry="ask_again")), tool("c1", "ask"))
    run_out(pen)
    pen(cm.Deliver([pen.decision("approve", "r/1.1", by="ada")], [grant()]))
    assert pen.state() == "approved"


# ---------------------------------------------------------------------------------------------------------- escalation


def escalates(**terms: Any) -> Pen:
    return waits(on_expiry="escalate", escalate_to=["zoe", "role:leads"], role="ops", **terms)


def test_a_request_that_runs_out_goes_to_others_who_have_the_same_time() -> None:
    pen = escalates()
    before = pen.decision("approve", by=person("ada", "ops"))
    [event] = run_out(pen)
    assert event == ev.CallAskedAgain(CALL, "escalate", HOUR + 1, pen.call().terms)
    terms = pen.call().terms
    assert terms is not None
    assert (terms.users, terms.role, terms.on_expiry, pen.call().expires_at) == (
        ("zoe",), "leads", "reject", 2 * HOUR + 1,
    )  # fmt: skip
    pen.refuses(Conflict, cm.Deliver([before]))
    pen.refuses(NotAllowed, cm.Deliver([pen.decision("approve", by=person("ada", "ops"))]))
    for who in (person("zoe"), person("max", "leads")):
        other = pen.copy()
        other.decide("approve", by=who)
        assert other.state() == "approved"


def test_a_request_is_escalated_once() -> None:
    pen = escalates()
    run_out(pen)
    run_out(pen)
    assert (pen.state(), pen.run.decided[CALL].verdict) == ("expired", "expire")


def test_voices_of_those_who_were_asked_first_are_not_carried_up() -> None:
    pen = escalates(quorum=2)
    pen.decide("approve", by=person("ada", "ops"))
    run_out(pen)
    assert pen.call().votes == {}
    pen.decide("approve", by="zoe")
    assert pen.state() == "asked"
    pen.decide("approve", by=person("max", "leads"))
    assert pen.state() == "approved"


def test_who_was_asked_first_is_the_one_whose_terms_a_changed_call_has_again() -> None:
    """A call that is proposed anew asks whom its tool or policy says; an escalation belongs to one asking."""
    pen = escalates()
    run_out(pen)
    pen(cm.VoidCall(CALL, pen.call().proposal, "the tool changed"))
    terms = pen.call().terms
    assert terms is not None
    assert (terms.role, terms.on_expiry, pen.call().revision) == ("ops", "escalate", 3)


# ---------------------------------------------------------------------------------------------------------- everywhere


def test_only_what_is_asked_runs_out() -> None:
    for make in ("approve", "lose", "need", "reject"):
        pen = waits(on_expiry="ask_again")
        pen.decide("reject" if make == "reject" else "approve")
        if make in ("lose", "need"):
            pen.begin()
            pen(cm.LoseCall(CALL, "lost") if make == "lose" else cm.NeedInput(CALL, {"q": 1}))
        assert (tick(pen, 99 * HOUR), wakes_at(pen.run)) == ([], None)


def test_a_tick_that_changes_nothing_is_nothing() -> None:
    pen = waits(on_expiry="ask_again")
    before = everything(pen.run)
    assert tick(pen, QUARTER - 1) == []
    assert everything(pen.run) == before
    for at in (QUARTER, HOUR + 1, 9 * HOUR, 99 * HOUR):
        tick(pen, at)
        assert everything(pen.copy().run) == everything(pen.run)
