"""A limit of several runs: a log that counts calls of others, once each, never over, and none that did not run."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.counted import OwedReturn
from keyturn.core.errors import Conflict, NotPending, UserError
from keyturn.core.quota import LIMIT, spent_since
from tests.core.samples import ALLOW, ASK, DENY, PEOPLE, Pen, asked, tool

CALL = "r/1.0"
TAKE = cm.TakeQuota("other", CALL, "args", "60", "100")


def counting(per_ms: int | None = None) -> Pen:
    """A log that counts calls of other runs; it is over from the start."""
    pen = Pen()
    pen(cm.Start("home", "salt", "", {LIMIT: "name", "per_ms": per_ms}, "quota", [], None), cm.CloseRun(None, []))
    assert (pen.run.status, pen.does()) == ("finished", [])
    return pen


def let(*quotas: str, **more: Any) -> Pen:
    """A call that was let run, and is counted in these logs."""
    pen = asked(tool("c0", "", **more))
    pen(cm.Screen(CALL, ALLOW, quotas=quotas))
    return pen


# -------------------------------------------------------------------------------------------------- the log that counts


def test_a_call_is_counted_once_for_the_same_arguments() -> None:
    pen = counting()
    assert pen(TAKE) == [ev.QuotaTaken("other", CALL, "args", "60", "100")]
    assert pen(TAKE) == []
    assert pen.run.spent == 60


def test_what_has_no_room_is_refused_and_what_somebody_approved_is_counted_over_the_limit() -> None:
    pen = counting()
    pen(TAKE)
    pen.refuses(NotPending, replace(TAKE, call="r/2.0", amount="40.5"))
    assert pen(replace(TAKE, call="r/2.0", amount="40"))
    assert pen(replace(TAKE, call="r/3.0", most=None))
    assert pen.run.spent == 160


def test_what_the_log_before_counts_leaves_less_room() -> None:
    pen = counting()
    pen.refuses(NotPending, replace(TAKE, beside="40.01"))
    assert pen(replace(TAKE, beside="40"))


def test_nothing_new_is_counted_once_the_log_is_closed_and_what_did_not_run_is_still_taken_out() -> None:
    pen = counting()
    pen(TAKE)
    assert pen(cm.CloseQuota()) == [ev.QuotaClosed()]
    assert pen(cm.CloseQuota()) == []
    assert pen(TAKE) == [], "it was counted here, and is not counted in the next one as well"
    error = pen.refuses(Conflict, replace(TAKE, call="r/2.0"))
    assert error.winner == "closed"
    assert pen(cm.ReturnQuota("other", CALL, "args")) == [ev.QuotaReturned("other", CALL, "args")]
    assert pen.run.spent == 0


def test_it_is_given_back_once_and_only_where_it_was_taken() -> None:
    pen = counting()
    pen(TAKE)
    assert pen(cm.ReturnQuota("other", CALL, "other args")) == []
    assert pen(cm.ReturnQuota("another", CALL, "args")) == []
    assert pen(cm.ReturnQuota("other", CALL, "args"))
    assert pen(cm.ReturnQuota("other", CALL, "args")) == []
    assert pen.run.spent == 0


@pytest.mark.each
@pytest.mark.parametrize("bad", [{"amount": "-1"}, {"beside": "-1"}, {"run": "home"}])
def test_nobody_makes_room_by_taking(bad: dict[str, str]) -> None:
    counting().refuses(UserError, replace(TAKE, **bad))


def test_the_log_of_a_run_counts_nothing_for_others() -> None:
    pen = asked(tool("c0"))
    pen.refuses(UserError, TAKE)
    pen.refuses(UserError, cm.CloseQuota())


def test_a_window_counts_what_was_taken_since() -> None:
    pen = counting(per_ms=100)
    for at in (10, 50, 90):
        pen(replace(TAKE, call=f"r/{at}.0", amount="1"), at=at)
    assert [spent_since(pen.run, since) for since in (None, 0, 11, 90, 91)] == [3, 3, 2, 1, 0]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.sampled_from(["1/3", "1", "2.5", "0"])), max_size=30))
def test_the_sum_is_that_of_what_is_counted_and_never_over(steps: list[tuple[bool, int, str]]) -> None:
    pen, counted = counting(), dict[int, Fraction]()
    for takes, which, amount in steps:
        if not takes:
            pen(cm.ReturnQuota("other", f"r/{which}.0", "args"))
            counted.pop(which, None)
            continue
        try:
            pen(cm.TakeQuota("other", f"r/{which}.0", "args", amount, "4"))
        except NotPending:
            assert sum(counted.values()) + Fraction(amount) > 4
        else:
            counted.setdefault(which, Fraction(amount))
        assert pen.run.spent == sum(counted.values()) <= 4
    assert pen.copy().run.spent == pen.run.spent


# --------------------------------------------------------------------------------------------------- the run that takes


def owes(pen: Pen) -> list[tuple[str, ...]]:
    return [made.quotas for made in pen.run.owed.values()]


def test_a_call_that_runs_owes_nothing() -> None:
    pen = let("q")
    pen.begin()
    pen.end()
    assert owes(pen) == []


def test_a_call_that_failed_before_it_began_owes_what_it_took() -> None:
    pen = let("q", "p")
    pen.end(failed=True)
    assert owes(pen) == [("q", "p")]
    [owed] = pen.run.owed.values()
    assert "return" in pen.does()[0]
    assert pen(cm.ReturnQuota("run", owed.call, owed.of))
    assert owes(pen) == []
    assert pen(cm.ReturnQuota("run", owed.call, owed.of)) == []


def test_a_call_that_asks_or_is_denied_after_it_was_counted_owes_what_it_took() -> None:
    for verdict in (ASK, DENY):
        pen = asked(tool("c0", ""))
        pen(cm.Screen(CALL, verdict, quotas=("q",)))
        assert owes(pen) == [("q",)]


def test_a_call_whose_approval_is_voided_owes_what_it_took() -> None:
    pen = asked(tool("c0", "ask"))
    pen.decide("approve")
    pen(cm.Screen(CALL, replace(ASK, terms=PEOPLE), on_decision=True, quotas=("q",)))
    assert (pen.state(), owes(pen)) == ("asked", [("q",)])


def test_a_call_in_doubt_owes_nothing_until_somebody_says_that_it_did_not_run() -> None:
    pen = let("q")
    pen.begin()
    pen(cm.LoseCall(CALL, "lost"))
    assert owes(pen) == []
    pen.decide("did_not_run", by="ann")
    assert owes(pen) == [("q",)]


def test_a_run_that_is_cancelled_owes_what_its_calls_took_that_did_not_begin() -> None:
    pen = asked(tool("c0", ""), tool("c1", ""))
    for place, name in enumerate(("q", "p")):
        pen(cm.Screen(f"r/1.{place}", ALLOW, quotas=(name,)))
    pen.begin("r/1.1")
    pen(cm.Cancel())
    assert owes(pen) == [("q",)]
    assert pen.does() == [f"return {next(iter(pen.run.owed))}"]


def test_what_is_owed_is_named_by_arguments_and_tells_nothing_without_the_salt() -> None:
    owed = list[OwedReturn]()
    for salt in ("one", "two"):
        pen = let("q")
        pen.run.salt = salt
        pen.end(failed=True)
        owed += pen.run.owed.values()
    assert owed[0].of != owed[1].of


def test_a_shadow_verdict_is_recorded_and_changes_nothing() -> None:
    pen, plain = asked(tool("c0", "")), asked(tool("c0", ""))
    [event] = pen(cm.Screen(CALL, ALLOW, shadow=DENY))
    assert event == ev.CallScreened(CALL, "allow", shadow=DENY)
    plain(cm.Screen(CALL, ALLOW))
    assert pen.copy().state() == plain.state() == "allowed"


def test_a_later_holder_takes_over_what_an_earlier_one_took_who_then_returns_nothing() -> None:
    """A process that stood still past its lease wakes up and returns what it took: its call has run since."""
    pen = counting()
    pen(replace(TAKE, epoch=1))
    assert pen(replace(TAKE, epoch=2)) == [ev.QuotaTaken("other", CALL, "args", "60", "100", epoch=2)]
    assert pen.run.spent == 60, "it is counted once"
    assert pen(cm.ReturnQuota("other", CALL, "args", epoch=1)) == []
    assert pen(cm.ReturnQuota("other", CALL, "args", epoch=2))
    assert pen.run.spent == 0


def test_a_holder_returns_what_an_earlier_one_took_and_did_not_record() -> None:
    pen = counting()
    pen(replace(TAKE, epoch=1))
    assert pen(cm.ReturnQuota("other", CALL, "args", epoch=2)) == [ev.QuotaReturned("other", CALL, "args", 2)]
    assert pen.run.spent == 0
