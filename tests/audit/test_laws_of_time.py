"""Time, and what becomes void in it: requests that run out, ask again or are escalated, and restored stores."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.policy import Verdict
from tests.audit.forging import (
    CALL,
    Steps,
    Table,
    after,
    asking,
    broken,
    check_found,
    decided,
    granted,
    lost,
    on,
    started,
    voted,
)
from tests.core.samples import Pen, asked, nested, person, tool

BOSSES = ("bob", "role:bosses")
ESCALATED = Approval(users=["bob"], role="bosses", expires="50ms")


def again(why: Any, at: int, terms: Approval | None = None) -> ev.CallAskedAgain:
    return ev.CallAskedAgain(CALL, why, at, terms)


def patient(**terms: Any) -> Pen:
    return on(expires="50ms", on_expiry="ask_again", **terms)


def climbing() -> Pen:
    return on(expires="50ms", on_expiry="escalate", escalate_to=BOSSES)


def expired(pen: Pen, **more: Any) -> ev.CallDecided:
    return decided(pen, "expire", by=None, via="clock", **more)


def ticked(pen: Pen, *at: int) -> Pen:
    for each in at:
        pen(cm.Tick(), at=each)
    return pen


def asked_anew() -> Pen:
    return ticked(patient(), 60)


def stale_answer() -> Steps:
    """A decision on the first asking, delivered in the second, of the same bytes."""
    pen = patient()
    before = decided(pen, at=60)
    return after(ticked(pen, 60), before)


def second_question() -> Steps:
    """The answer to a tool's first question, delivered to its second, of the same words."""
    pen = asking()
    before = decided(pen, "answer", output=1)
    pen.decide("answer", output=1)
    pen.begin()
    pen(cm.NeedInput(CALL, {"q": 1}))
    return after(pen, before)


def half_before() -> Steps:
    """One voice before the request was asked anew, and one after."""
    pen = patient(quorum=2)
    pen.decide("approve", by="ada")
    ticked(pen, 60)
    return after(pen, decided(pen, by="bob"))


def restored(pen: Pen, *more: ev.AnyEvent) -> Steps:
    return after(pen, *more, ev.RunRestored("a copy was put back"))


ANEW = again("restored", 0)

TIME: Table = {
    "decided too late": ("I1", lambda: after(pen := on(expires="50ms"), decided(pen, at=51), at=51)),
    "decided too late, dated earlier": ("I1", lambda: after(pen := on(expires="50ms"), decided(pen, at=50), at=51)),
    "voted too late": ("I1", lambda: after(pen := on(expires="50ms", quorum=2), voted(pen, at=51), at=51)),
    "dated otherwise than its line": ("I8", lambda: after(pen := asked(), decided(pen, at=7))),
    "a vote dated otherwise": ("I8", lambda: after(pen := on(quorum=2), voted(pen, at=7))),
    "a replaced vote dated otherwise": (
        "I8",
        lambda: after(pen := asked(), ev.VoteCast(decided(pen, at=7).decision, replaced=True)),
    ),
    "a question dated otherwise": ("I8", lambda: after(started(), ev.CallNeeds(CALL, {"q": 1}, at=7))),
    "expired at another time": ("I8", lambda: after(pen := on(expires="50ms"), expired(pen, at=50), at=51)),
    "expired too soon": ("I6", lambda: after(pen := on(expires="50ms"), expired(pen))),
    "expired and never does": ("I6", lambda: after(pen := asked(), expired(pen, at=99), at=99)),
    "expired where it asks again": ("I6", lambda: after(pen := patient(), expired(pen, at=51), at=51)),
    "expired where it is escalated": ("I6", lambda: after(pen := climbing(), expired(pen, at=51), at=51)),
    "asked again too soon": ("I6", lambda: after(patient(), again("ask_again", 50), at=50)),
    "asked again too often": ("I6", lambda: after(patient(max_asks=1), again("ask_again", 51), at=51)),
    "asked again too often in the end": (
        "I6",
        lambda: after(ticked(patient(max_asks=2), 60), again("ask_again", 120), at=60),
    ),
    "asked again and never is": ("I6", lambda: after(on(expires="50ms"), again("ask_again", 51), at=51)),
    "asked again on other terms": ("I1", lambda: after(patient(), again("ask_again", 51, Approval()), at=51)),
    "asked again at another time": ("I8", lambda: after(patient(), again("ask_again", 9), at=51)),
    "asked again for no reason": ("I7", lambda: after(patient(), again("because", 51), at=51)),
    "asked again for a reason of its own": (
        "I8",
        lambda: after(patient(), replace(again("ask_again", 51), reason="why not"), at=51),
    ),
    "asked again on the newest terms, and was in doubt before": (
        "I8",
        lambda: after(lost(), again("terms", 0, Approval(role="ops"))),
    ),
    "asked again on the newest terms, and only waited": (
        "I3",
        lambda: after(asked(), again("terms", 0, Approval(role="ops"))),
    ),
    "proposed anew though it had been started": (
        "I2",
        lambda: after(pen := just_retried(), ev.CallVoided(CALL, pen.call().proposal, "why")),
    ),
    "screened on other terms, and the newest policy asked for none": (
        "I1",
        lambda: after(
            pen := approved(asked()),
            ev.CallVoided(CALL, pen.call().proposal, "why"),
            ev.CallScreened(CALL, "ask", terms=Approval(role="ops")),
        ),
    ),
    "asked again while it runs": ("I3", lambda: after(started(), again("ask_again", 0))),
    "escalated too soon": ("I6", lambda: after(climbing(), again("escalate", 50, ESCALATED), at=50)),
    "escalated to others": (
        "I1",
        lambda: after(climbing(), again("escalate", 51, replace(ESCALATED, users=("eve",))), at=51),
    ),
    "escalated to fewer": (
        "I1",
        lambda: after(climbing(), again("escalate", 51, replace(ESCALATED, role=None)), at=51),
    ),
    "escalated to nobody": ("I1", lambda: after(climbing(), again("escalate", 51), at=51)),
    "escalated and never is": (
        "I1",
        lambda: after(patient(), again("escalate", 51, Approval(expires="50ms")), at=51),
    ),
    "decided by those from before it was escalated": (
        "I1",
        lambda: after(pen := ticked(climbing(), 60), decided(pen)),
    ),
    "a decision of the asking before": ("I4", stale_answer),
    "an answer to the question before": ("I4", second_question),
    "a voice of the asking before": ("I1", half_before),
    "warned of what never runs out": ("I8", lambda: after(asked(), ev.ExpiryNear(CALL))),
    "warned too soon": ("I8", lambda: after(on(expires="50ms", warn_before="10ms"), ev.ExpiryNear(CALL), at=39)),
    "warned too late": ("I8", lambda: after(on(expires="50ms"), ev.ExpiryNear(CALL), at=51)),
    "warned twice": ("I8", lambda: after(on(expires="50ms"), *[ev.ExpiryNear(CALL)] * 2, at=50)),
    "warned while in doubt": ("I8", lambda: after(lost(started(on(expires="50ms"))), ev.ExpiryNear(CALL), at=50)),
    "started when stale": (
        "I1",
        lambda: after(approved(on(execute_by="50ms")), ev.CallStarted(CALL), at=51),
    ),
    "started when the retry is stale": ("I1", lambda: after(retried(), ev.CallStarted(CALL), at=51)),
}


def approved(pen: Pen, verdict: str = "approve") -> Pen:
    pen.decide(verdict)
    pen(*pen.screened())
    return pen


def just_retried() -> Pen:
    return approved(lost(), "retry")


def retried() -> Pen:
    return approved(lost(started(on(execute_by="50ms"))), "retry")


def just_approved() -> Pen:
    pen = asked()
    pen.decide("approve")
    return pen


def whole(pen: Pen) -> Pen:
    """The same run, as the core restores it."""
    pen(cm.RecordRestore("a copy was put back"))
    return pen


def ended() -> Pen:
    pen = asked()
    pen(cm.Cancel())
    return pen


def from_before() -> Steps:
    pen = asked()
    before = decided(pen)
    return after(whole(pen), before)


def with_a_grant() -> Steps:
    """The lines of a restore, without the one that takes a standing approval back."""
    *before, last = whole(granted()).log.steps
    kept = [event for event in last.events if not isinstance(event, ev.GrantRevoked)]
    assert len(kept) == len(last.events) - 1
    return [*before, replace(last, events=kept)]


RESTORED: Table = {
    "approved and let stand": ("I2", lambda: restored(approved(asked()))),
    "approved, not screened, and let stand": ("I2", lambda: restored(just_approved())),
    "allowed and let stand": ("I2", lambda: restored(asked(tool("c0")))),
    "started and let stand": ("I2", lambda: restored(started())),
    "an agent's call let stand": ("I2", lambda: restored(nested(tool("c0")))),
    "asked and not anew": ("I1", lambda: restored(asked())),
    "in doubt and not anew": ("I1", lambda: restored(lost())),
    "a question and not anew": ("I1", lambda: restored(asking())),
    "proposed and let stand": ("I2", lambda: restored(asked(tool("c0", "")))),
    "voided before its verdict, and not restored": (
        "I2",
        lambda: after(pen := asked(tool("c0", "")), ev.CallVoided(CALL, pen.call().proposal, "why")),
    ),
    "started though the run was restored": ("I2", lambda: after(whole(approved(asked())), ev.CallStarted(CALL))),
    "started again though the run was restored": ("I2", lambda: after(whole(started()), ev.CallStarted(CALL))),
    "an approval from before it was restored": ("I4", from_before),
    "in doubt, not started, and not restored": ("I2", lambda: after(approved(asked()), ev.CallLost(CALL, "why"))),
    "asked anew and not restored": ("I2", lambda: after(asked(), ANEW)),
    "asked anew on other terms": ("I1", lambda: restored(asked(), again("restored", 0, Approval()))),
    "started anew though it never started": (
        "I2",
        lambda: after(approved(asked()), ev.CallLost(CALL, "why", again=True)),
    ),
    "a standing approval left": ("I1", with_a_grant),
    "restored after its end": ("I8", lambda: restored(ended())),
}


def test_what_time_forbids_is_found() -> None:
    """Findings M1 and M2: decisions that came too late counted, and stale approvals ran."""
    check_found(TIME)


def test_what_may_have_run_before_a_restore_takes_a_new_word() -> None:
    """Finding H7: after a restored backup finished calls ran again, and the checker said every promise was kept."""
    check_found(RESTORED)


def test_what_the_clock_does_is_taken() -> None:
    pen = ticked(patient(max_asks=3), 40, 60, 111, 170)
    assert pen.state() == "expired"
    assert broken(pen.log.steps) is None
    pen = ticked(climbing(), 60)
    pen.decide("approve", by=person("cyd", "bosses"))
    pen.begin()
    assert broken(pen.log.steps) is None
    pen = ticked(climbing(), 60, 120)
    assert pen.state() == "expired"
    assert broken(pen.log.steps) is None
    for pen, state, word in ((approved(on(execute_by="50ms")), "asked", "approve"), (retried(), "in_doubt", "retry")):
        ticked(pen, 60)
        assert pen.state() == state
        pen.decide(word)
        pen.begin()
        assert broken(pen.log.steps) is None


def test_stricter_terms_of_the_newest_policy_are_taken() -> None:
    stricter = Verdict("ask", terms=Approval(role="ops"))
    for make, state in ((approve, "asked"), (retry, "in_doubt")):
        for facts in ({}, {"terms": Approval(quorum=1, execute_by="1h")}):
            pen = asked(tool("c0", "ask", **facts))
            make(pen)
            pen(*pen.screened(verdict=stricter))
            assert (pen.state(), pen.call().terms) == (state, stricter.terms)
            assert broken(pen.log.steps) is None
            pen.decide("approve" if state == "asked" else "retry", by=person("ann", "ops"))
            pen.begin()
            assert broken(pen.log.steps) is None


def approve(pen: Pen) -> None:
    pen.decide("approve")


def retry(pen: Pen) -> None:
    lost(started(pen))
    pen.decide("retry")


def test_a_restored_run_goes_on_with_a_new_word() -> None:
    for make in (approved, started, just_restored_edit):
        pen = whole(make(asked()))
        pen(cm.Resume())
        pen.decide("retry", by="ada")
        pen.begin()
        pen.end()
        assert broken(pen.log.steps) is None
    pen = whole(nested(tool("c0", "ask")))
    pen.decide("approve", "r/1.0/1.0")
    pen.begin("r/1.0/1.0")
    assert broken(pen.log.steps) is None


def just_restored_edit(pen: Pen) -> Pen:
    pen.decide("edit", args='{"n":2}')
    return pen
