"""Standing decisions: who can give one, what it covers, how often, how long, and what it never does."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.errors import Conflict, KeyturnError, NotAllowed, NotPending, UserError
from keyturn.core.items import Item
from keyturn.core.people import Proof
from keyturn.core.policy import Verdict
from keyturn.core.run import call_digest
from tests.core.samples import ALLOW, ASK, DENY, PEOPLE, Pen, asked, grant, nested, person, reply, tool

HOUR = 3_600_000
CALL, NEXT, AFTER = "r/1.0", "r/2.0", "r/2.1"
Made = tuple[Item, ev.Proposal]


def edited_and_lost() -> Pen:
    pen = asked(tool("c0", "ask"), tool("c1", "ask"))
    pen.decide("edit", args='{"n":2}')
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed"))
    return pen


def three() -> Pen:
    """A reply with three calls that ask, with 1, 2 and 3 as their argument."""
    return asked(*(tool(f"c{n}", "ask", f'{{"n":{n}}}') for n in (1, 2, 3)))


def granted(*grants: ev.GrantTerms, then: tuple[Made, ...], at: int = 0) -> Pen:
    """A run in whose first turn somebody gave these, each with a decision of its own, and whose second turn calls."""
    pen = asked(*(tool(f"f{place}", "ask") for place in range(len(grants))))
    calls = [f"r/1.{place}" for place in range(len(grants))]
    made = [pen.decision(given.verdict, call, by=given.decider) for call, given in zip(calls, grants, strict=True)]
    pen(cm.Deliver(made, list(grants)), at=at)
    for call in calls:
        if pen.state(call) == "approved":
            pen.begin(call)
        pen.end(call)
    pen(reply(*then))
    return pen


def states(pen: Pen) -> list[str]:
    return [call.state for call in pen.run.calls.values()]


# ------------------------------------------------------------------------------------------------------- what it covers


def test_a_grant_covers_later_calls_and_says_so() -> None:
    pen = granted(grant(), then=(tool("c0", ""),))
    events = pen(cm.Screen(NEXT, Verdict("ask", reason="risky")))
    assert events == [ev.CallScreened(NEXT, "allow", "risky", "grant:g"), ev.GrantUsed("g", NEXT)]
    assert (pen.state(NEXT), pen.run.grant_uses) == ("allowed", {"g": 1})


def test_a_grant_covers_the_siblings_that_wait() -> None:
    pen = three()
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant()]))
    assert states(pen) == ["approved"] * 3
    assert [call.decision.by for call in pen.run.calls.values() if call.decision] == ["ada", "grant:g", "grant:g"]
    assert pen.run.grant_uses == {"g": 2}
    made = pen.call("r/1.1").decision
    assert made is not None
    assert (made.via, made.grant, made.decider) == ("grant", "g", None)


def test_what_a_grant_decides_is_looked_at_by_the_newest_policy() -> None:
    pen = three()
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant()]))
    assert [call.recheck for call in pen.run.calls.values()] == [True] * 3
    pen.refuses(Conflict, cm.StartCall("r/1.1", "t1"))
    pen(*pen.screened("r/1.1", DENY))
    assert states(pen) == ["approved", "denied", "approved"]


def test_a_grant_that_comes_late_covers_nothing_whose_time_is_up() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(expires="3h")), tool("c1", "ask", terms=Approval(expires="1h")))
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant()]), cm.Tick(), at=pen.now + 2 * HOUR)
    assert [pen.state(call) for call in (CALL, "r/1.1")] == ["approved", "expired"]
    assert pen.run.grant_uses == {"g": 0}


def test_a_decision_for_one_call_beats_a_grant() -> None:
    pen = three()
    pen(cm.Deliver([pen.decision("reject", "r/1.1"), pen.decision("approve", by="ada")], [grant()]))
    assert states(pen) == ["approved", "rejected", "approved"]


def test_a_grant_can_reject() -> None:
    pen = asked(tool("c0", "ask"), tool("c1", ""), tool("c2", "ask"))
    pen(cm.Deliver([pen.decision("reject", by="ada")], [grant(verdict="reject", message="never")]))
    pen(cm.Screen("r/1.1", ASK))
    assert states(pen) == ["rejected"] * 3
    made = pen.call("r/1.1").decision
    assert made is not None
    assert (made.by, made.message, made.digest) == ("grant:g", "never", call_digest(pen.run, pen.call("r/1.1")))


def test_a_grant_is_not_used_up_by_what_needs_nobody() -> None:
    pen = granted(grant(), then=(tool("c0", ""), tool("c1", "")))
    pen(cm.Screen(NEXT, ALLOW), cm.Screen(AFTER, DENY))
    assert states(pen) == ["allowed", "denied"]
    assert pen.run.grant_uses == {"g": 0}


def test_a_standing_rejection_is_about_the_tool_and_stops_what_would_need_nobody() -> None:
    pen = granted(grant(verdict="reject"), then=(tool("c0", ""), tool("c1", "")))
    pen(cm.Screen(NEXT, ALLOW), cm.Screen(AFTER, DENY))
    assert states(pen) == ["rejected", "denied"]
    assert pen.run.grant_uses == {"g": 1}


def test_nothing_is_allowed_unseen_while_a_standing_rejection_is_about_its_tool() -> None:
    calls = (tool("c0"), tool("c1", arguments='{"n":2}'), tool("c2", tool="t2"))
    pen = granted(grant(verdict="reject", where={"n": 2}), then=calls)
    assert pen.does() == ["screen r/2.0", "screen r/2.1", "run r/2.2"]
    pen(cm.Screen(NEXT, ALLOW), cm.Screen(AFTER, ALLOW))
    assert states(pen) == ["allowed", "rejected", "allowed"]


def test_a_standing_rejection_is_about_whatever_has_the_name_of_its_tool() -> None:
    raw, renewed = tool("c0", tool="t2")
    pen = granted(grant(verdict="reject"), then=((raw, replace(renewed, name="t")),))
    pen(cm.Screen(NEXT, ALLOW))
    assert states(pen) == ["rejected"]
    pen = granted(grant(), then=((raw, replace(renewed, name="t", gate="ask")),))
    assert states(pen) == ["asked"]


def test_a_standing_approval_leaves_what_needs_nobody_alone() -> None:
    pen = granted(grant(uses=1), then=(tool("c0", ""), tool("c1")))
    pen(cm.Screen(NEXT, ALLOW))
    assert states(pen) == ["allowed", "allowed"]
    assert pen.run.grant_uses == {"g": 0}


def test_the_newest_grant_counts() -> None:
    pen = granted(grant("old"), grant("new", verdict="reject"), then=(tool("c0", ""),))
    pen(cm.Screen(NEXT, ASK))
    assert (pen.state(NEXT), pen.run.grant_uses) == ("rejected", {"old": 0, "new": 1})


def test_a_grant_covers_no_other_tool_agent_or_arguments() -> None:
    pen = granted(grant(where={"n": {"ge": 2}}), then=(tool("c0", "ask"), tool("c1", "ask", '{"n":2}', tool="t2")))
    assert states(pen) == ["asked", "asked"]
    inner = asked(tool("outer"), tool("c1", "ask"), tool("c2", "ask"))
    inner.begin()
    inner(cm.OpenFrame(CALL, "a/b", [], 5))
    inner(reply(tool("c0", "ask"), frame=CALL))
    inner(cm.Deliver([inner.decision("approve", "r/1.1", by="ada")], [grant()]))
    assert (inner.state("r/1.2"), inner.state("r/1.0/1.0")) == ("approved", "asked")


def test_a_grant_can_mean_some_arguments() -> None:
    pen = three()
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant(where={"n": {"ge": 3}})]))
    assert states(pen) == ["approved", "asked", "approved"]


def test_a_grant_is_used_as_often_as_it_says() -> None:
    pen = three()
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant(uses=1)]))
    assert states(pen) == ["approved", "approved", "asked"]
    assert pen.run.grant_uses == {"g": 1}


def test_a_grant_ends_at_its_time() -> None:
    pen = granted(grant(expires_at=10), then=(tool("c0", ""), tool("c1", "")))
    pen(cm.Screen(NEXT, ASK), at=9)
    pen(cm.Screen(AFTER, ASK), at=10)
    assert states(pen) == ["allowed", "asked"]


@pytest.mark.parametrize("over", [0, 1])
def test_a_call_that_a_grant_let_run_goes_stale_as_one_that_a_person_approved(over: int) -> None:
    pen = granted(grant(), then=(tool("c0", ""),))
    pen(cm.Screen(NEXT, Verdict("ask", terms=Approval(execute_by="1s"))), at=10)
    assert pen.call(NEXT).by == "grant:g"
    if over:
        pen.refuses(Conflict, cm.StartCall(NEXT, "t1"), at=1_010 + over)
    pen(cm.Tick(), at=1_010 + over)
    assert pen.state(NEXT) == ("asked" if over else "allowed")
    assert pen.call(NEXT).reason == ("the approval was not executed in time and has expired" if over else "")


def test_a_spent_grant_leaves_the_call_to_an_older_one() -> None:
    pen = granted(grant("old"), grant("new", uses=0), then=(tool("c0", ""),))
    pen(cm.Screen(NEXT, ASK))
    assert pen.call(NEXT).by == "grant:old"


def test_a_revoked_grant_covers_nothing_and_does_not_come_back() -> None:
    pen = granted(grant(), then=(tool("c0", ""), tool("c1", "ask", tool="t2")))
    again = pen.decision("approve", AFTER, by="ada")
    assert pen(cm.Revoke("g", person("ada"))) == [ev.GrantRevoked("g", person("ada"))]
    pen.refuses(NotPending, cm.Revoke("g"))
    assert [type(event) for event in pen(cm.Deliver([again], [grant()]))] == [ev.CallDecided]
    pen(cm.Screen(NEXT, ASK))
    assert pen.state(NEXT) == "asked"


def test_a_grant_covers_the_next_turn_of_the_same_agent_only() -> None:
    """After a handoff another agent makes the calls, and nobody said anything of it."""
    pen = asked(tool("c0", "ask"))
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant()]))
    pen.begin()
    pen(cm.HandOff(CALL, {"type": "function_call_output", "call_id": "c0", "output": "over"}, "b"))
    pen(reply(tool("c1", "ask")))
    assert pen.state(NEXT) == "asked"


# --------------------------------------------------------------------------------------------------- who can give what


def test_giving_a_grant_twice_is_giving_it_once() -> None:
    pen = three()
    made = cm.Deliver([pen.decision("approve", by="ada")], [grant(uses=1)])
    pen(made)
    assert pen(made) == []
    assert pen.run.grant_uses == {"g": 1}


def test_a_grant_that_could_not_be_applied_is_refused() -> None:
    wrong: list[dict[str, Any]] = [{"verdict": "answer"}, {"verdict": ""}, {"where": {"n": {"about": 3}}}]
    for terms in wrong:
        pen = three()
        pen.refuses(UserError, cm.Deliver([pen.decision("approve", by="ada")], [grant(**terms)]))


def test_the_words_of_a_grant_are_words_that_every_store_can_hold() -> None:
    """L1: its message is what a model reads of each call that it rejects."""
    for message in ("\ud800", "a\x00b"):
        pen = three()
        made = pen.decision("reject", by="ada")
        pen.refuses(UserError, cm.Deliver([made], [grant(verdict="reject", message=message)]))


def test_a_grant_is_given_with_a_decision_of_the_same_person_on_a_call_like_it() -> None:
    refused: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
        ([], {}),
        ([{"by": "bob"}], {}),
        ([{"by": person("ada", strength="claimed")}], {}),
        ([{"by": None}], {}),
        ([{"verdict": "reject"}], {}),
        ([{"verdict": "approve"}], {"verdict": "reject"}),
        ([{}], {"tool": "t2"}),
        ([{}], {"agent": "b"}),
        ([{}], {"agent": "a/b"}),
        ([{}], {"tool": ""}),
        ([{}, {"call_id": "r/1.1", "by": "bob"}], {"by": "cyd"}),
    ]
    for decisions, terms in refused:
        pen = three()
        made = [pen.decision(**{"verdict": "approve", "by": "ada"} | words) for words in decisions]
        pen.refuses(UserError, cm.Deliver(made, [grant(**terms)]))
        assert pen.run.grants == {}


def test_nobody_gives_a_grant_in_the_name_of_no_person() -> None:
    """A probe may settle its own doubt; that is no reason to let the tool run for good."""
    pen = asked(tool("c0", "ask", recover="probe"), tool("c1", "ask"))
    pen.decide("approve")
    pen.begin()
    pen(cm.LoseCall(CALL, "lost"))
    made = pen.decision("retry", via="probe")
    pen.refuses(UserError, cm.Deliver([made], [grant(by=None)]))
    pen(cm.Deliver([made]))
    assert pen.state() == "approved"


def test_one_persons_grant_is_no_quorum() -> None:
    pen = asked(tool("c0", "ask", terms=PEOPLE), tool("c1", "ask"), tool("c2", "ask", terms=PEOPLE))
    pen.refuses(NotAllowed, cm.Deliver([pen.decision("approve", by="ada")], [grant()]))
    pen(cm.Deliver([pen.decision("approve", "r/1.1", by="ada")], [grant()]))
    assert states(pen) == ["asked", "approved", "asked"]


def test_one_person_can_reject_for_good_where_one_can_reject() -> None:
    two = Approval(quorum=2)
    pen = asked(tool("c0", "ask", terms=two), tool("c1", "ask", terms=two), tool("c2", "ask", terms=PEOPLE))
    pen(cm.Deliver([pen.decision("reject", by="ada")], [grant(verdict="reject")]))
    assert states(pen) == ["rejected", "rejected", "asked"]


def test_a_standing_rejection_is_worth_its_givers_word_on_the_step_that_is_due() -> None:
    """What waits for its requester's word is rejected for good by the requester, and by nobody who comes after."""
    first = Approval(confirm=True, role="ops")
    for giver, wanted in ((person("bob", "ops"), "asked"), (person("eve", "ops", requester=True), "rejected")):
        given = grant(verdict="reject", by=giver)
        pen = granted(given, then=(tool("c0", ""),))
        pen(cm.Screen(NEXT, Verdict("ask", terms=first)))
        assert pen.state(NEXT) == wanted, giver


COVERED: list[tuple[Approval | None, dict[str, Any], bool]] = [
    (None, {"by": None}, True),
    (None, {"by": person("ada", strength="claimed")}, True),
    (Approval(expires="1h", reason="optional"), {"by": None}, True),
    (Approval(role="ops"), {"by": person("ada", "ops")}, True),
    (Approval(role="ops"), {"by": person("ada")}, False),
    (Approval(role="ops"), {"by": person("ada", "ops", strength="claimed")}, False),
    (Approval(role="ops"), {"by": None}, False),
    (Approval(users=("ada",)), {"by": "ada"}, True),
    (Approval(users=("ada",)), {"by": "bob"}, False),
    (Approval(not_requester=True), {"by": "ada"}, True),
    (Approval(not_requester=True), {"by": "eve"}, False),
    (Approval(not_requester=True), {"by": person("ada", requester=True)}, False),
    (Approval(signed=True), {"by": person("ada", strength="signed")}, False),
    (Approval(step_up=True), {"by": person("ada", strength="signed")}, False),
    (Approval(quorum=2), {"by": person("ada", strength="signed")}, False),
]


def test_a_grant_covers_only_what_its_giver_could_decide_alone() -> None:
    for terms, given, covered in COVERED:
        pen = asked(tool("c0", "ask"), tool("c1", "ask", terms=terms), requester="eve")
        pen(cm.Deliver([pen.decision("approve", by=given["by"])], [grant(by=given["by"])]))
        assert pen.state("r/1.1") == ("approved" if covered else "asked"), (terms, given)


def test_a_grant_covers_the_same_where_the_terms_come_with_a_verdict() -> None:
    for terms, given, covered in COVERED:
        pen = granted(grant(by=given["by"]), then=(tool("c0", ""),))
        pen.run.requester = "eve"
        pen(cm.Screen(NEXT, Verdict("ask", terms=terms)))
        assert pen.state(NEXT) == ("allowed" if covered else "asked"), (terms, given)


def test_a_signed_decision_gives_a_grant_that_signs_nothing() -> None:
    signer = person("ada", strength="signed")
    pen = asked(*(tool(f"c{n}", "ask", terms=Approval(signed=True)) for n in range(2)))
    pen(cm.Deliver([pen.decision("approve", by=signer, proof=Proof("ssh", "k", b"x"))], [grant(by=signer)]))
    assert states(pen) == ["approved", "asked"]


def test_a_word_that_was_said_before_by_another_gives_nobody_more_than_they_have() -> None:
    """Repeating what ada decided is harmless; a grant that comes with it is its own giver's and covers as little."""
    terms = Approval(role="ops")
    pen = asked(tool("c0", "ask", terms=terms), tool("c1", "ask", terms=terms))
    said = pen.decision("approve", by=person("ada", "ops"))
    pen(cm.Deliver([said]))
    mallory = person("mallory", strength="claimed")
    with suppress(KeyturnError):
        pen(cm.Deliver([ev.Decision(CALL, "approve", said.digest, decider=mallory)], [grant(by=mallory)]))
    assert pen.state("r/1.1") == "asked"


# ------------------------------------------------------------------------------------------------------ what it is not


def test_a_grant_resolves_no_doubt() -> None:
    pen = edited_and_lost()
    pen(cm.Deliver([pen.decision("approve", "r/1.1", by="ada")], [grant()]))
    assert states(pen) == ["in_doubt", "approved"]


def test_a_grant_cannot_compare_what_is_no_value() -> None:
    pen = granted(grant(where={"n": {"le": 5}}), then=(tool("c0", "ask", '{"n":"5"}'), tool("c1", "ask", "{}")))
    assert states(pen) == ["asked", "asked"]


def test_what_a_grant_decided_is_told_to_who_comes_later() -> None:
    pen = three()
    late = pen.decision("reject", "r/1.2")
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant()]))
    assert pen.refuses(Conflict, cm.Deliver([late])).winner == "grant:g"


def test_a_nested_agents_call_has_grants_of_its_own() -> None:
    pen = nested(tool("c0", "ask"), tool("c1", "ask"))
    pen.refuses(UserError, cm.Deliver([pen.decision("approve", "r/1.0/1.0", by="ada")], [grant()]))
    pen(cm.Deliver([pen.decision("approve", "r/1.0/1.0", by="ada")], [grant(agent="a/b")]))
    assert pen.state("r/1.0/1.1") == "approved"


def test_a_predicate_that_no_text_can_hold_is_refused() -> None:
    pen = three()
    pen.refuses(UserError, cm.Deliver([pen.decision("approve", by="ada")], [grant(where={"n": {"eq": float("nan")}})]))
