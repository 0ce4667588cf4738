"""What a run lends to calls of other runs, and borrows for its own: once, while it stands, and never on."""

from __future__ import annotations

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.errors import NotPending
from keyturn.core.gate.lending import borrowed
from keyturn.core.policy import Verdict
from tests.core.samples import Pen, asked, grant, reply, tool

CALL, NEXT = "r/1.0", "r/2.0"
LENT = cm.LendGrant("g", ["here"], "other", CALL)


def home(**terms: object) -> Pen:
    """A run in which a grant was given that reaches beyond it."""
    pen = asked(tool("c0", "ask"))
    given = replace(grant("g"), reach="here", **terms)
    pen(cm.Deliver([pen.decision("approve", by=given.decider)], [given]))
    return pen


def test_a_call_that_was_lent_a_grant_is_lent_it_again_and_it_counts_once() -> None:
    pen = home(uses=1)
    assert pen(LENT) == [ev.GrantLent("g", "other", CALL)]
    assert pen(LENT) == []
    assert pen.run.grant_uses == {"g": 1}
    pen.refuses(NotPending, replace(LENT, call=NEXT))


def test_what_was_revoked_is_not_lent_again_to_the_call_that_had_it() -> None:
    """A worker died between the two logs, and somebody revoked the grant before the next one came."""
    pen = home()
    pen(LENT)
    pen(cm.Revoke("g"))
    pen.refuses(NotPending, LENT)


def test_what_ran_out_is_not_lent_again_to_the_call_that_had_it() -> None:
    pen = home(expires_at=100)
    pen(LENT, at=50)
    pen.refuses(NotPending, LENT, at=100)


def test_what_was_borrowed_is_not_lent_on() -> None:
    pen = asked(tool("c0", "ask"))
    own = borrowed(replace(grant("g"), reach="here"), NEXT)
    pen(cm.BorrowGrant(own, "home"))
    pen.refuses(NotPending, cm.LendGrant(own.id, ["here"], "other", NEXT))


def test_never_again_was_said_in_this_run_and_beats_what_another_lends() -> None:
    """Somebody says so between the look at the other run and the reply that is recorded."""
    pen = asked(tool("c0", "ask"))
    lent = borrowed(replace(grant("g"), reach="here"), NEXT)
    never = grant("n", verdict="reject")
    pen(cm.Deliver([pen.decision("reject", by=never.decider)], [never]))
    pen.end()
    pen(cm.BorrowGrant(lent, "home"), reply(tool("c1", "")))
    pen(cm.Screen(NEXT, Verdict("ask")))
    assert (pen.run.grant_uses, [call.state for call in pen.run.calls.values()]) == ({"n": 1, lent.id: 0}, ["rejected"])
