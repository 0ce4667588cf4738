"""Standing decisions: what a grant covers, how often, how long, and what it never does."""

from typing import Any

import pytest

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.errors import Conflict, NotPending, UserError
from keyturn.core.policy import Approval, Verdict
from keyturn.core.run import call_digest
from tests.core.samples import ALLOW, ASK, DENY, PEOPLE, Pen, asked, grant, reply, tool

HOUR = 3_600_000
CALL = "r/1.0"


def names(events: list[ev.AnyEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def edited_and_lost() -> Pen:
    pen = asked(tool("c0", "ask"))
    pen.decide("edit", args='{"n":2}')
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed"))
    return pen


def three() -> Pen:
    """A reply with three calls that ask, with 1, 2 and 3 as their argument."""
    return asked(*(tool(f"c{n}", "ask", f'{{"n":{n}}}') for n in (1, 2, 3)))


def test_a_grant_covers_later_calls_and_says_so() -> None:
    pen = asked(tool("c0", ""))
    pen(cm.Deliver([], [grant()]))
    events = pen(cm.Screen(CALL, Verdict("ask", reason="risky")))
    assert events == [ev.CallScreened(CALL, "allow", "risky", "grant:g"), ev.GrantUsed("g", CALL)]
    assert (pen.state(), pen.run.grant_uses) == ("allowed", {"g": 1})


def test_a_grant_covers_the_siblings_that_wait() -> None:
    pen = three()
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant()]))
    assert [call.state for call in pen.run.calls.values()] == ["approved"] * 3
    assert [call.decision.by for call in pen.run.calls.values() if call.decision] == ["ada", "grant:g", "grant:g"]
    assert pen.run.grant_uses == {"g": 2}


def test_a_grant_that_comes_late_covers_nothing_whose_time_is_up() -> None:
    terms = Approval(expires="1h")
    pen = asked(tool("c0", "ask", terms=terms), tool("c1", "ask", terms=terms))
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant()]), cm.Tick(), at=pen.now + 2 * HOUR)
    assert [pen.state(call) for call in (CALL, "r/1.1")] == ["approved", "expired"]
    assert pen.run.grant_uses == {"g": 0}


def test_a_decision_for_one_call_beats_a_grant() -> None:
    pen = three()
    pen(cm.Deliver([pen.decision("reject", "r/1.1")], [grant()]))
    assert [call.state for call in pen.run.calls.values()] == ["approved", "rejected", "approved"]


def test_a_grant_can_reject() -> None:
    pen = asked(tool("c0", "ask"), tool("c1", ""))
    pen(cm.Deliver([], [grant(verdict="reject", message="never")]))
    pen(cm.Screen("r/1.1", ASK))
    assert [call.state for call in pen.run.calls.values()] == ["rejected", "rejected"]
    made = pen.call("r/1.1").decision
    assert made is not None
    assert (made.by, made.message, made.digest) == ("grant:g", "never", call_digest(pen.run, pen.call("r/1.1")))


def test_a_grant_is_not_used_up_by_what_needs_nobody() -> None:
    pen = asked(tool("c0", ""), tool("c1", ""))
    pen(cm.Deliver([], [grant()]))
    pen(cm.Screen(CALL, ALLOW), cm.Screen("r/1.1", DENY))
    assert [call.state for call in pen.run.calls.values()] == ["allowed", "denied"]
    assert pen.run.grant_uses == {"g": 0}


def test_a_standing_rejection_is_about_the_tool_and_stops_what_would_need_nobody() -> None:
    pen = asked(tool("c0", ""), tool("c1", ""))
    pen(cm.Deliver([], [grant(verdict="reject")]))
    pen(cm.Screen(CALL, ALLOW), cm.Screen("r/1.1", DENY))
    assert [call.state for call in pen.run.calls.values()] == ["rejected", "denied"]
    assert pen.run.grant_uses == {"g": 1}


def test_nothing_is_allowed_unseen_while_a_standing_rejection_is_about_its_tool() -> None:
    pen = asked(tool("c0"), tool("c1"))
    pen(cm.Deliver([], [grant(verdict="reject", where={"n": 2})]))
    assert [call.state for call in pen.run.calls.values()] == ["allowed", "allowed"]
    for call_id in ("r/1.0", "r/1.1"):
        pen.begin(call_id)
        pen.end(call_id)
    pen(reply(tool("c0"), tool("c1", arguments='{"n":2}'), tool("c2", tool="t2")))
    assert pen.does() == ["screen r/2.0", "screen r/2.1", "run r/2.2"]
    pen(cm.Screen("r/2.0", ALLOW), cm.Screen("r/2.1", ALLOW))
    assert [call.state for call in pen.run.calls.values()] == ["allowed", "rejected", "allowed"]


def test_a_standing_approval_leaves_what_needs_nobody_alone() -> None:
    pen = asked(tool("c0", ""), tool("c1"))
    pen(cm.Deliver([], [grant(uses=1)]), cm.Screen(CALL, ALLOW))
    assert [call.state for call in pen.run.calls.values()] == ["allowed", "allowed"]
    assert pen.run.grant_uses == {"g": 0}


def test_the_newest_grant_counts() -> None:
    pen = asked(tool("c0", ""))
    pen(cm.Deliver([], [grant("old"), grant("new", verdict="reject")]), cm.Screen(CALL, ASK))
    assert (pen.state(), pen.run.grant_uses) == ("rejected", {"old": 0, "new": 1})


@pytest.mark.parametrize(
    "other",
    [{"agent": "b"}, {"agent": "a/b"}, {"tool": "t2"}, {"tool": ""}, {"where": {"n": 2}}, {"where": {"m": 1}}],
)
def test_a_grant_covers_nothing_else(other: dict[str, Any]) -> None:
    pen = three()
    pen(cm.Deliver([], [grant(**other)]))
    assert pen.state("r/1.0") == "asked"


def test_a_grant_can_mean_some_arguments() -> None:
    pen = three()
    pen(cm.Deliver([], [grant(where={"n": {"ge": 2}})]))
    assert [call.state for call in pen.run.calls.values()] == ["asked", "approved", "approved"]


def test_a_grant_is_used_as_often_as_it_says() -> None:
    pen = three()
    pen(cm.Deliver([], [grant(uses=2)]))
    assert [call.state for call in pen.run.calls.values()] == ["approved", "approved", "asked"]
    assert pen.run.grant_uses == {"g": 2}


def test_a_grant_ends_at_its_time() -> None:
    pen = asked(tool("c0", ""), tool("c1", ""))
    pen(cm.Deliver([], [grant(expires_at=10)]))
    pen(cm.Screen(CALL, ASK), at=9)
    pen(cm.Screen("r/1.1", ASK), at=10)
    assert [call.state for call in pen.run.calls.values()] == ["allowed", "asked"]


def test_a_spent_grant_leaves_the_call_to_an_older_one() -> None:
    pen = asked(tool("c0", ""))
    pen(cm.Deliver([], [grant("old"), grant("new", uses=0)]), cm.Screen(CALL, ASK))
    assert pen.call().by == "grant:old"


def test_a_revoked_grant_covers_nothing_and_does_not_come_back() -> None:
    pen = asked(tool("c0", ""))
    pen(cm.Deliver([], [grant()]))
    assert pen(cm.Revoke("g", "ada")) == [ev.GrantRevoked("g", "ada")]
    pen.refuses(NotPending, cm.Revoke("g"))
    assert pen(cm.Deliver([], [grant()])) == []
    pen(cm.Screen(CALL, ASK))
    assert pen.state() == "asked"


def test_giving_a_grant_twice_is_giving_it_once() -> None:
    pen = three()
    pen(cm.Deliver([], [grant(uses=1)]))
    assert pen(cm.Deliver([], [grant(uses=1)])) == []


@pytest.mark.parametrize("terms", [{"verdict": "answer"}, {"verdict": ""}, {"where": {"n": {"about": 3}}}])
def test_a_grant_that_could_not_be_applied_is_refused(terms: dict[str, Any]) -> None:
    pen = three()
    pen.refuses(UserError, cm.Deliver([pen.decision("approve")], [grant(**terms)]))


def test_one_persons_grant_is_no_quorum() -> None:
    pen = asked(tool("c0", "ask", terms=PEOPLE), tool("c1", ""))
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant(by="ada")]))
    assert pen.state() == "asked"
    pen(cm.Screen("r/1.1", Verdict("ask", terms=PEOPLE)))
    assert pen.state("r/1.1") == "asked"


def test_one_person_can_reject_for_good_where_one_can_reject() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(quorum=2)))
    pen(cm.Deliver([], [grant(verdict="reject")]))
    assert pen.state() == "rejected"


def test_a_grant_resolves_no_doubt() -> None:
    pen = edited_and_lost()
    pen(cm.Deliver([], [grant()]))
    assert pen.state() == "in_doubt"


def test_what_a_grant_decided_is_told_to_who_comes_later() -> None:
    pen = three()
    late = pen.decision("reject", "r/1.2")
    pen(cm.Deliver([], [grant()]))
    assert pen.refuses(Conflict, cm.Deliver([late])).winner == "grant:g"
