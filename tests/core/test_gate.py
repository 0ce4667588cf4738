"""The gate: verdicts, decisions, grants and the clock, one rule a test."""

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.errors import BadJson, Conflict, Expired, NotPending, UserError
from keyturn.core.people import Proof
from keyturn.core.run import call_digest
from tests.core.samples import ALLOW, ASK, DENY, Pen, asked, grant, nested, person, reply, result, start, tool
from tests.table import each

HOUR = 3_600_000
CALL = "r/1.0"


def names(events: list[ev.AnyEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def three() -> Pen:
    """A reply with three calls that ask, with 1, 2 and 3 as their argument."""
    return asked(*(tool(f"c{n}", "ask", f'{{"n":{n}}}') for n in (1, 2, 3)))


def again() -> Pen:
    """A call that was approved, went stale an hour later and asks again."""
    pen = asked(tool("c0", "ask", terms=Approval(execute_by="30m")))
    pen.decide("approve")
    pen(cm.Tick(), at=HOUR)
    return pen


# ------------------------------------------------------------------------------------------------------- screening


def test_a_verdict_is_asked_for_once() -> None:
    pen = asked(tool("c0", ""))
    assert pen.does() == ["screen r/1.0"]
    pen(cm.Screen(CALL, ASK))
    assert pen(cm.Screen(CALL, ALLOW)) == []
    assert pen.state() == "asked"


def test_a_verdict_on_no_call_is_nothing() -> None:
    assert asked()(cm.Screen("r/9.9", ALLOW)) == []


def test_an_asking_tool_is_asked_for_in_the_step_of_its_reply() -> None:
    pen = Pen()
    pen(start())
    assert names(pen(reply(tool("c0", "ask")), at=5)) == ["ReplyRecorded", "CallScreened"]
    assert (pen.call().asked_at, pen.call().by) == (5, "tool")


def test_a_denied_call_is_settled_and_cannot_run() -> None:
    pen = asked(tool("c0", ""))
    pen(cm.Screen(CALL, DENY))
    assert (pen.state(), pen.call().reason, pen.does()) == ("denied", "not here", ["settle r/1.0"])
    pen.refuses(Conflict, cm.StartCall(CALL, "t1"))


# ------------------------------------------------------------------------------------------------------- decisions


def test_a_decision_is_bound_to_what_was_shown() -> None:
    pen = asked()
    other = replace(pen.decision("approve"), digest="0" * 64)
    assert "no longer the one that was shown" in str(pen.refuses(Conflict, cm.Deliver([other])))
    assert pen.state() == "asked"


@pytest.mark.parametrize("part", ["run", "call", "agent", "tool", "args"])
def test_the_digest_covers(part: str) -> None:
    pen = asked()
    before = call_digest(pen.run, pen.call())
    call = pen.call()
    if part == "run":
        pen.run.id = "other"
    elif part in ("call", "agent"):
        setattr(call, {"call": "id"}.get(part, part), "other")
    else:
        call.proposal = replace(call.proposal, **{part: '{"n":2}' if part == "args" else "other"})
    assert call_digest(pen.run, call) != before


def test_the_digest_covers_the_value_and_not_its_spelling() -> None:
    plain, spaced = asked(tool("c0", "ask", '{"n":1,"m":2}')), asked(tool("c0", "ask", '{ "m": 2, "n": 1 }'))
    assert call_digest(plain.run, plain.call()) == call_digest(spaced.run, spaced.call())


@pytest.mark.parametrize("verdict", ["approve", "reject", "answer"])
def test_repeating_a_decision_is_harmless(verdict: str) -> None:
    pen = asked()
    made = pen.decision(verdict, by="ada", output=None)
    pen(cm.Deliver([made]))
    assert pen(cm.Deliver([made])) == []
    assert pen(cm.Deliver([replace(made, decider=person("bob"), at=9)])) == []


@each(
    ("first", "second"),
    [
        ({"verdict": "approve"}, {"verdict": "reject"}),
        ({"verdict": "reject"}, {"verdict": "approve"}),
        ({"verdict": "approve"}, {"verdict": "edit", "args": '{"n":2}'}),
        ({"verdict": "edit", "args": '{"n":2}'}, {"verdict": "edit", "args": '{"n":3}'}),
        ({"verdict": "answer", "output": 1}, {"verdict": "answer", "output": 2}),
        ({"verdict": "answer", "output": 1}, {"verdict": "answer", "output": True}),
        ({"verdict": "reject", "message": "no"}, {"verdict": "reject", "message": "never"}),
    ],
)
def test_the_first_decision_stands_and_the_second_learns_of_it(first: dict[str, Any], second: dict[str, Any]) -> None:
    pen = asked()
    late = pen.decision(**second, by="bob")
    pen(cm.Deliver([pen.decision(**first, by="ada")]), at=3)
    error = pen.refuses(Conflict, cm.Deliver([late]))
    assert (error.winner, error.decision, error.at) == ("ada", first["verdict"], 3)
    assert "ada" in str(error)


def test_a_settled_turn_still_names_the_winner() -> None:
    pen = asked()
    late = pen.decision("reject", by="bob")
    pen.decide("approve", by="ada")
    pen.begin()
    pen.end()
    assert CALL not in pen.run.calls
    assert pen.refuses(Conflict, cm.Deliver([late])).winner == "ada"


@pytest.mark.parametrize("name", ["r/1.7", "r/2.0", "", "x"])
def test_what_is_not_pending_cannot_be_decided(name: str) -> None:
    pen = asked()
    pen.refuses(NotPending, cm.Deliver([replace(pen.decision("approve"), call=name)]))


def test_an_allowed_call_is_not_pending() -> None:
    pen = asked(tool("c0"))
    pen.refuses(NotPending, cm.Deliver([pen.decision("reject")]))


@each("verdict", ["ran", "did_not_run", "retry", "expire", "deny", "void", "start", ""])
def test_an_asked_call_takes_no_other_verdict(verdict: str) -> None:
    pen = asked()
    pen.refuses(NotPending, cm.Deliver([pen.decision(verdict)]))


@pytest.mark.parametrize(("verdict", "args"), [("approve", '{"n":9}'), ("reject", "{}"), ("edit", None)])
def test_only_an_edit_names_arguments(verdict: str, args: str | None) -> None:
    pen = asked()
    pen.refuses(UserError, cm.Deliver([pen.decision(verdict, args=args)]))


@pytest.mark.parametrize("args", ["{", '{"a":1,"a":2}', "NaN", "1e999", ""])
def test_an_edit_is_strict_json(args: str) -> None:
    pen = asked()
    pen.refuses(BadJson, cm.Deliver([pen.decision("edit", args=args)]))


def test_one_refused_decision_refuses_the_whole_delivery() -> None:
    pen = three()
    wrong = replace(pen.decision("approve", "r/1.1"), digest="x")
    pen.refuses(Conflict, cm.Deliver([pen.decision("approve"), wrong], [grant()]))
    assert {call.state for call in pen.run.calls.values()} == {"asked"}


def test_one_delivery_decides_a_call_once() -> None:
    pen = asked()
    yes, no = pen.decision("approve"), pen.decision("reject")
    pen.refuses(Conflict, cm.Deliver([yes, no]))
    assert names(pen(cm.Deliver([yes, yes]))) == ["CallDecided"]


def test_what_was_replaced_in_hand_is_recorded_once() -> None:
    pen = asked()
    before, made = pen.decision("approve", by="ada"), pen.decision("reject", by="ada")
    events = pen(cm.Deliver([made], replaced=[before]))
    assert events[0] == ev.VoteCast(before, replaced=True)
    assert (pen.state(), pen.call().votes) == ("rejected", {})
    assert pen(cm.Deliver([made], replaced=[before])) == []


def test_deciding_two_calls_is_no_conflict() -> None:
    pen = three()
    pen.decide("approve", "r/1.0")
    pen.decide("reject", "r/1.1")
    assert [call.state for call in pen.run.calls.values()] == ["approved", "rejected", "asked"]


def test_a_call_of_a_nested_agent_is_decided_on_the_same_run() -> None:
    pen = nested(tool("c0", "ask"))
    pen.decide("approve", "r/1.0/1.0")
    assert pen.state("r/1.0/1.0") == "approved"


# ---------------------------------------------------------------------------------------------------- edits, doubts


def edited_and_lost() -> Pen:
    pen = asked(tool("c0", "ask"))
    pen.decide("edit", args='{"n":2}')
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed"))
    return pen


def test_an_edit_is_what_runs() -> None:
    pen = asked(tool("c0", "ask"))
    pen.decide("edit", args='{"n":2}')
    assert (pen.call().text, pen.call().params) == ('{"n":2}', {"n": 2})
    assert pen.call().raw["arguments"] == '{"n":1}'


def test_an_edit_outlives_a_doubt() -> None:
    pen = edited_and_lost()
    assert (pen.call().kind, pen.call().params) == ("in_doubt", {"n": 2})
    pen.decide("retry")
    assert (pen.state(), pen.call().params) == ("approved", {"n": 2})
    pen.begin()
    pen(cm.LoseCall(CALL, "again"))
    pen.decide("ran", output="yes")
    assert (pen.state(), pen.call().text) == ("ran", '{"n":2}')


def test_a_doubt_is_decided_on_the_edited_bytes() -> None:
    pen = edited_and_lost()
    original = replace(pen.call(), decision=None)
    stale = replace(pen.decision("retry"), digest=call_digest(pen.run, original))
    pen.refuses(Conflict, cm.Deliver([stale]))


@pytest.mark.parametrize("verdict", ["approve", "reject", "answer", "edit", "expire"])
def test_a_doubt_takes_no_approval(verdict: str) -> None:
    pen = edited_and_lost()
    error = pen.refuses(NotPending, cm.Deliver([pen.decision(verdict, args='{"n":2}')]))
    assert "in_doubt" in str(error)


def test_a_retry_counts_once() -> None:
    pen = edited_and_lost()
    retry = pen.decision("retry", by="ada")
    pen(cm.Deliver([retry]))
    pen.begin()
    pen(cm.LoseCall(CALL, "again"))
    assert pen(cm.Deliver([retry])) == []
    assert pen.state() == "in_doubt"
    pen.refuses(Conflict, cm.Deliver([replace(retry, decider=person("bob"))]))  # it is of the doubt before this one
    pen(cm.Deliver([pen.decision("retry", by="ada")]))
    assert pen.state() == "approved"


def test_the_approval_that_led_to_a_doubt_can_be_repeated_and_does_nothing() -> None:
    pen = asked()
    made = pen.decision("approve", by="ada")
    pen(cm.Deliver([made]))
    pen.begin()
    pen(cm.LoseCall(CALL, "lost"))
    assert pen(cm.Deliver([made])) == []
    assert pen.state() == "in_doubt"


def test_a_doubt_never_runs_out() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(expires="1h")))
    pen.decide("approve")
    pen.begin()
    pen(cm.LoseCall(CALL, "lost"))
    assert (pen.call().expires_at, pen(cm.Tick(), at=9 * HOUR)) == (None, [])
    pen.decide("did_not_run")
    assert pen.state() == "did_not_run"


# ------------------------------------------------------------------------------------------------------- recheck


@pytest.mark.parametrize("verdict", ["approve", "edit"])
def test_the_policy_is_asked_again_before_what_was_decided_runs(verdict: str) -> None:
    """H5: there is no parameter to forget; whatever lets a call run is looked at by the newest policy."""
    pen = asked()
    pen.decide(verdict, args='{"n":2}' if verdict == "edit" else None)
    assert pen.does() == ["screen r/1.0"]
    pen.refuses(Conflict, cm.StartCall(CALL, "t1"))
    pen(*pen.screened(verdict=ASK))
    assert pen.does() == ["run r/1.0"]


def test_the_policy_may_only_tighten() -> None:
    pen = asked()
    pen(cm.Deliver([pen.decision("approve")]))
    pen(*pen.screened(verdict=DENY))
    assert (pen.state(), pen.does()) == ("denied", ["settle r/1.0"])


def test_a_verdict_on_something_else_is_no_verdict_on_this() -> None:
    """A first verdict that comes late is no word on a decision, nor is a word on a decision a first verdict."""
    for verdict in (ALLOW, ASK, DENY):
        pen = asked(tool("c0", ""))
        assert pen(cm.Screen(CALL, verdict, on_decision=True)) == []
        pen(cm.Screen(CALL, ASK))
        pen.decide("approve")
        assert pen(cm.Screen(CALL, verdict)) == []
        assert (pen.state(), pen.does()) == ("approved", ["screen r/1.0"])
        pen.refuses(Conflict, cm.StartCall(CALL, "t1"))
        pen(*pen.screened())
        assert pen(cm.Screen(CALL, verdict, on_decision=True)) == [], "the newest policy had its word"
        assert pen.begin()


def test_stricter_terms_of_the_newest_policy_take_the_proof_of_everybody_who_voted() -> None:
    for proven in (True, False):
        pen = asked(tool("c0", "ask", terms=Approval(quorum=2)), tool("c1", "ask", tool="t2"))
        for by, proof in (("ada", Proof("ssh", "k", b"x") if proven else None), ("bob", Proof("ssh", "k", b"y"))):
            pen.decide("approve", by=person(by, strength="signed"), proof=proof)
        pen(*pen.screened(verdict=replace(ASK, terms=Approval(quorum=2, signed=True))))
        assert pen.state() == ("approved" if proven else "asked")


@pytest.mark.parametrize("verdict", ["reject", "answer"])
def test_what_does_not_run_needs_no_second_word(verdict: str) -> None:
    pen = asked()
    pen(cm.Deliver([pen.decision(verdict)]))
    assert pen.does() == ["settle r/1.0"]


def test_a_retry_is_rechecked() -> None:
    pen = edited_and_lost()
    pen(cm.Deliver([pen.decision("retry")]))
    assert pen.does() == ["screen r/1.0"]


def test_a_voided_call_forgets_that_it_was_to_be_rechecked() -> None:
    pen = asked()
    pen(cm.Deliver([pen.decision("approve")]))
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, tool="t2", terms=Approval(expires="1h")), "changed"), at=7)
    assert (pen.state(), pen.call().recheck, pen.call().expires_at) == ("asked", False, 7 + HOUR)
    for on_decision in (False, True):
        assert pen(cm.Screen(CALL, ALLOW, on_decision=on_decision)) == []


# ---------------------------------------------------------------------------------------------------------- voiding


@pytest.mark.parametrize("gate", ["allow", "ask"])
@pytest.mark.parametrize("verdict", ["", "approve"])
def test_a_changed_tool_asks_again_whatever_its_own_setting_says(gate: str, verdict: str) -> None:
    pen = asked(tool("c0", gate))
    if verdict and gate == "ask":
        pen.decide(verdict)
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, tool="t2"), "the tool changed"))
    assert (pen.state(), pen.call().reason, pen.call().shown) == ("asked", "the tool changed", "t1")
    assert pen.call().decision is None
    pen.decide("approve")
    assert pen.begin()


def test_a_changed_call_that_is_screened_is_never_just_allowed() -> None:
    pen = asked(tool("c0", ""))
    pen(cm.Screen(CALL, ALLOW))
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, tool="t2"), "the tool changed"))
    assert pen.does() == ["screen r/1.0"]
    pen(cm.Screen(CALL, ALLOW))
    assert (pen.state(), pen.call().reason) == ("asked", "the tool changed")


def test_a_changed_call_can_still_be_denied() -> None:
    pen = asked(tool("c0", ""))
    pen(cm.Screen(CALL, ALLOW))
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, tool="t2"), "the tool changed"))
    pen(cm.Screen(CALL, DENY))
    assert pen.state() == "denied"


def test_what_was_said_before_a_call_was_voided_is_void() -> None:
    pen = asked()
    before = pen.decision("approve")
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, tool="t2"), "the tool changed"))
    pen.refuses(Conflict, cm.Deliver([before]))


def test_no_grant_covers_a_call_that_must_ask_again() -> None:
    others = (("t2", 1), ("t9", 1), ("t2", 7))
    pen = asked(tool("c0", ""), *(tool(f"{name}-{n}", "ask", f'{{"n":{n}}}', tool=name) for name, n in others))
    old = grant(tool="t2", where={"n": 1})
    pen(cm.Deliver([pen.decision("approve", "r/1.1", by="ada")], [old]), cm.Screen(CALL, ALLOW))
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, tool="t2"), "the tool changed"), cm.Screen(CALL, ASK))
    assert pen.state() == "asked"
    pen(cm.Deliver([pen.decision("approve", "r/1.2", by="ada")], [grant("other", tool="t9")]))
    assert pen.state() == "asked"
    pen(cm.Deliver([pen.decision("approve", "r/1.3", by="ada")], [grant("newer", tool="t2")]))
    assert pen.state() == "approved"


def test_a_changed_call_that_its_tool_refuses_has_its_result() -> None:
    pen = asked()
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, refused=result("c0", "no")), "changed"))
    assert (pen.root().phase, pen.root().items[-1]) == ("model", result("c0", "no"))


@pytest.mark.parametrize("last", [True, False])
def test_a_changed_call_may_change_its_place(last: bool) -> None:
    pen = asked(tool("c0", "ask", last=not last))
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, last=last), "changed"))
    pen.decide("approve")
    pen(*pen.screened())
    assert pen.does() == ["run r/1.0"]
    assert pen.begin()


# ------------------------------------------------------------------------------------------------------------- time


def test_a_request_runs_out_after_its_time() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(expires="1h")))
    assert names(pen(cm.Tick(), at=HOUR)) == ["ExpiryNear"]
    pen(cm.Tick(), at=HOUR + 1)
    assert (pen.state(), pen.does()) == ("expired", ["settle r/1.0"])
    made = pen.run.decided[CALL]
    assert (made.by, made.at) == ("clock", HOUR + 1)


def test_a_decision_after_the_time_is_expired_before_the_clock_has_struck() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(expires="1h")))
    for said in (0, 5, HOUR, 9 * HOUR):  # M1: what counts is the run's own time at delivery, not the decider's clock
        pen.refuses(Expired, cm.Deliver([pen.decision("approve", at=said)]), at=HOUR + 1)
    pen(cm.Deliver([pen.decision("approve", at=9 * HOUR)]), at=HOUR)
    assert (pen.state(), pen.run.decided[CALL].at) == ("approved", HOUR)


def test_an_expired_call_stays_expired() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(expires="1h")))
    late = pen.decision("approve", at=5)
    pen(cm.Tick(), at=2 * HOUR)
    pen.refuses(Expired, cm.Deliver([late]))
    pen.end()
    pen.refuses(Expired, cm.Deliver([late]))


def test_a_stale_approval_asks_again() -> None:
    pen = again()
    assert (pen.state(), pen.call().decision, pen.call().asked_at) == ("asked", None, HOUR)
    assert "has expired" in pen.call().reason


def test_a_stale_approval_does_not_start_even_before_the_clock_has_struck() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(execute_by="30m")))
    pen.decide("approve")
    pen(*pen.screened())
    pen.refuses(Conflict, cm.StartCall(CALL, "t1"), at=HOUR // 2 + 1)
    assert pen(cm.StartCall(CALL, "t1"), at=HOUR // 2)


def test_a_decision_is_used_once_and_does_not_come_back_when_the_call_asks_again() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(execute_by="30m")))
    made = pen.decision("approve")
    pen(cm.Deliver([made]))
    pen(cm.Tick(), at=HOUR)
    pen.refuses(Conflict, cm.Deliver([made]))
    pen.decide("approve")
    assert pen.begin()


def test_a_stale_edit_asks_again_with_what_a_person_made_of_it() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(execute_by="30m")))
    pen.decide("edit", args='{"n":2}')
    pen(cm.Tick(), at=HOUR)
    assert (pen.state(), pen.call().params, pen.call().edited, pen.call().decision) == ("asked", {"n": 2}, True, None)


def test_a_decision_of_the_same_moment_does_not_come_back_either() -> None:
    pen = asked()
    made = pen.decision("approve", by="ada")
    pen(cm.Deliver([made]))
    pen(cm.VoidCall(CALL, pen.call().proposal, "to be sure"))
    pen.refuses(Conflict, cm.Deliver([made]))
    pen.decide("approve", by="bob")
    assert pen.state() == "approved"


@pytest.mark.parametrize(
    ("reason", "verdict", "lacks"),
    [
        ("required", "approve", True),
        ("required", "reject", True),
        ("on_reject", "approve", False),
        ("on_reject", "reject", True),
        ("optional", "reject", False),
    ],
)
def test_a_reason_is_given_where_the_terms_want_one(reason: Any, verdict: str, lacks: bool) -> None:
    pen = asked(tool("c0", "ask", terms=Approval(reason=reason)))
    for nothing in (None, "", " ", "\u200b\u2060", "\t\n", "\u3164", "\u0301") if lacks else ():
        pen.refuses(UserError, cm.Deliver([pen.decision(verdict, note=nothing)]))
    pen.decide(verdict, **({"note": "because"} if lacks else {}))
    assert pen.state() in ("approved", "rejected")


def test_what_has_no_terms_never_goes_stale() -> None:
    pen = three()
    pen.decide("approve")
    assert pen(cm.Tick(), at=10**15) == []


def test_time_never_goes_back() -> None:
    pen = asked(tool("c0", ""))
    pen(cm.SaveContext(1), at=50)
    pen(cm.Screen(CALL, ASK), at=20)
    assert (pen.run.now, pen.call().asked_at, pen.copy().run.now) == (50, 50, 50)
