"""Reviews and looks, events in and state out: who is asked, who may answer, and that no call is touched by it."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.errors import Conflict, NotAllowed, NotPending, UserError
from keyturn.core.gate.reviews import drawn, review_digest
from keyturn.core.people import Decider
from keyturn.core.policy import Verdict
from keyturn.core.run import call_digest
from tests.core.samples import Pen, grant, person, reply, start, tool

CALL = "r/1.0"
ANN, BOB, CHIEF = person("ann", "ops"), person("bob", "ops"), person("cyd", "chief")
GLASS = Approval(role="ops", break_glass="chief")


def waiting(terms: Approval | None, **more: Any) -> Pen:
    """A run in which one call waits on these terms."""
    pen = Pen()
    pen(start(**more), reply(tool("c0", "ask", terms=terms)), at=1_000)
    return pen


def let(share: float = 1.0, *before: ev.GrantTerms, **more: Any) -> Pen:
    """A run in which a policy let one call run, and others look at such a share."""
    pen = Pen()
    pen(start(**more), reply(tool("c0", "")), at=1_000)
    pen(cm.Screen(CALL, Verdict("allow", by="policy:1", review=share)))
    return pen


def said(pen: Pen, who: Decider, word: Any = "right", note: str | None = None, **more: Any) -> cm.GiveReview:
    shown = review_digest(pen.run, pen.run.reviews[CALL])
    return cm.GiveReview(CALL, more.get("digest", shown), word, who, note)


def broken() -> Pen:
    pen = waiting(GLASS)
    events = pen.decide("approve", by=CHIEF, broke_glass=True, note="fire")
    assert events[1:] == [ev.ReviewAsked(CALL, "glass", ("cyd",))]
    return pen


def test_a_sample_is_asked_about_in_the_line_of_its_verdict() -> None:
    pen = let()
    assert pen.log.steps[-1].events[-1] == ev.ReviewAsked(CALL, "sample")
    assert (pen.state(), pen.does()) == ("allowed", [f"run {CALL}"])
    assert let(0.0).run.reviews == {}


def test_the_draw_is_that_of_the_run_and_the_bytes() -> None:
    shares = [drawn("salt", f"{number}", 0.25) for number in range(4_000)]
    assert 850 < sum(shares) < 1_150
    assert shares == [drawn("salt", f"{number}", 0.25) for number in range(4_000)]
    assert shares != [drawn("pepper", f"{number}", 0.25) for number in range(4_000)]


def test_a_review_changes_nothing_of_its_call() -> None:
    pen, other = let(), let()
    pen(said(pen, ANN, "wrong", "no"))
    assert (pen.run.calls, pen.does()) == (other.run.calls, [f"run {CALL}"])
    pen.begin()
    pen.end()
    assert pen.run.calls == {}


def test_a_review_may_come_when_the_run_is_over() -> None:
    pen = let()
    pen(cm.Cancel())
    assert pen(said(pen, ANN)) == [ev.ReviewGiven(CALL, "right", said(pen, ANN).digest, ANN)]
    assert pen.does() == []


@pytest.mark.parametrize(
    "who",
    [CHIEF, person("CYD", "ops"), Decider("bob", ("ops",), "authenticated", acting_for="cyd"),
     person("eve", "ops"), person("gus", "ops", requester=True), person("ann", "ops", strength="claimed"),
     person("dan")],
)  # fmt: skip
def test_who_decided_it_or_is_not_asked_does_not_review_it(who: Decider) -> None:
    pen = waiting(GLASS, requester="eve")
    pen.decide("approve", by=CHIEF, broke_glass=True, note="fire")
    pen.refuses(NotAllowed, said(pen, who))
    assert pen(said(pen, ANN))


def test_if_all_whom_the_terms_name_decided_it_anybody_else_may_review_it() -> None:
    pen = waiting(Approval(users=["cyd"], break_glass="chief"))
    pen.decide("approve", by=CHIEF, broke_glass=True, note="fire")
    pen.refuses(NotAllowed, said(pen, CHIEF))
    assert pen(said(pen, person("dan")))


def test_it_is_said_once_and_bound_to_what_was_shown() -> None:
    pen = broken()
    pen.refuses(Conflict, said(pen, ANN, digest=call_digest(pen.run, pen.call())))
    pen.refuses(UserError, said(pen, ANN, "fine"))
    pen.refuses(UserError, said(pen, ANN, "wrong"))
    pen.refuses(UserError, said(pen, ANN, "right", "\ud800"))
    pen.refuses(NotPending, cm.GiveReview("r/9.9", "", "right", ANN))
    pen(said(pen, ANN))
    assert pen(said(pen, ANN)) == [], "repeated, it is harmless"
    assert pen.refuses(Conflict, said(pen, BOB, "wrong", "no")).winner == "ann"


def test_what_was_let_run_anew_is_asked_about_anew() -> None:
    pen = broken()
    first = said(pen, ANN)
    pen(cm.Withdraw(CALL, ANN))
    pen.decide("approve", by=CHIEF, broke_glass=True, note="again")
    assert pen.run.reviews[CALL].revision == 2
    pen.refuses(Conflict, first)
    assert pen(said(pen, ANN))


def test_a_grant_says_which_share_of_its_uses_is_looked_at() -> None:
    pen = Pen()
    pen(start(), reply(tool("c0", "ask"), tool("c1", "ask", '{"n":2}')), at=1_000)
    given = grant("g", by=ANN, review=1)
    events = pen(cm.Deliver([pen.decision("approve", by=ANN)], [given]))
    asked = [event for event in events if isinstance(event, ev.ReviewAsked)]
    assert asked == [ev.ReviewAsked("r/1.1", "sample", ("ann",))], "the first one was decided by a person"
    assert pen.copy().run.reviews["r/1.1"].deciders == ("ann",)


def test_a_look_is_of_somebody_known_on_what_is_shown() -> None:
    pen = waiting(Approval(role="ops", min_look="5s"))
    shown = call_digest(pen.run, pen.call())
    pen.refuses(NotAllowed, cm.RecordLook(CALL, shown, person("ann", "ops", strength="claimed")))
    pen.refuses(NotAllowed, cm.RecordLook(CALL, shown, person("eve")))
    pen.refuses(Conflict, cm.RecordLook(CALL, "0" * 64, ANN))
    pen.refuses(NotPending, cm.RecordLook("r/9.9", shown, ANN))
    assert pen(cm.RecordLook(CALL, shown, ANN), at=2_000) == [ev.CallLooked(CALL, ANN, shown)]
    assert pen(cm.RecordLook(CALL, shown, ANN), at=3_000) == [], "the first time counts"
    assert pen.call().looks == {"ann": 2_000}


@pytest.mark.parametrize("verdict", ["approve", "edit"])
def test_a_word_that_lets_it_run_comes_after_a_look(verdict: str) -> None:
    pen = waiting(Approval(role="ops", min_look="5s"))
    words: dict[str, Any] = {"by": ANN} | ({"args": '{"n":2}'} if verdict == "edit" else {})
    pen.refuses(NotAllowed, cm.Deliver([pen.decision(verdict, **words)]))
    pen(cm.RecordLook(CALL, call_digest(pen.run, pen.call()), ANN), at=2_000)
    pen.refuses(NotAllowed, cm.Deliver([pen.decision(verdict, **words)]), at=6_999)
    pen.now = 7_000
    hasty = pen.decision(verdict, **(words | {"at": 6_999}))
    pen.refuses(NotAllowed, cm.Deliver([hasty]), at=9_000)  # what was said too early is not delivered in time
    pen.now = 7_000
    assert pen.decide(verdict, **words)


def test_a_doubt_is_looked_at_before_it_runs_again() -> None:
    pen = waiting(Approval(min_look="5s"))
    pen(cm.RecordLook(CALL, call_digest(pen.run, pen.call()), ANN))
    pen.now += 5_000
    pen.decide("approve", by=ANN)
    pen.begin()
    pen(cm.LoseCall(CALL, "lost"))
    pen.refuses(NotAllowed, cm.Deliver([pen.decision("retry", by=ANN)]))
    assert pen.decide("ran", by=ANN, output="so"), "a fact takes no look"


def test_a_policy_that_asks_for_a_longer_look_takes_the_approval_back() -> None:
    pen = waiting(Approval(min_look="5s"))
    pen(cm.RecordLook(CALL, call_digest(pen.run, pen.call()), ANN))
    pen.now += 5_000
    pen.decide("approve", by=ANN)
    longer = Verdict("ask", terms=Approval(min_look="10s"))
    pen(cm.Screen(CALL, longer, on_decision=True))
    assert (pen.state(), pen.call().looks) == ("asked", {})


def test_what_asks_anew_is_looked_at_anew() -> None:
    pen = waiting(Approval(min_look="1s", expires="1m", on_expiry="ask_again"))
    pen(cm.RecordLook(CALL, call_digest(pen.run, pen.call()), ANN))
    pen(cm.Tick(), at=100_000)
    assert pen.call().looks == {}
    pen.refuses(NotAllowed, cm.Deliver([pen.decision("approve", by=ANN)]))
