"""Quorums: several people are several people who said the same, of the same call, in time."""

from typing import Any

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.errors import NotAllowed
from tests.core.samples import Pen, asked, person, tool
from tests.table import each

HOUR = 3_600_000
CALL = "r/1.0"


def quorum(**terms: Any) -> Pen:
    return asked(tool("c0", "ask", terms=Approval(**({"quorum": 2, "deny_quorum": 2} | terms))))


def test_a_quorum_counts_people() -> None:
    pen = quorum()
    assert [type(event) for event in pen.decide("approve", by="ada")] == [ev.VoteCast]
    assert pen.decide("approve", by="ada") == []
    assert pen.decide("approve", by="ada", note="really") == []
    assert pen.state() == "asked"
    pen.decide("approve", by="bob")
    assert (pen.state(), pen.run.decided[CALL].by) == ("approved", "bob")


def test_nobody_in_particular_and_a_mere_name_are_no_voices() -> None:
    pen = quorum()
    for nobody in (None, person("ada", strength="claimed"), person("bob", strength="claimed")):
        pen.refuses(NotAllowed, cm.Deliver([pen.decision("approve", by=nobody)]))
    assert (pen.state(), pen.call().votes) == ("asked", {})


def test_a_changed_mind_moves_its_voice() -> None:
    pen = quorum()
    pen.decide("approve", by="ada")
    pen.decide("reject", by="ada")
    pen.decide("approve", by="bob")
    assert pen.state() == "asked"
    pen.decide("reject", by="bob")
    assert pen.state() == "rejected"


def test_one_rejection_is_enough_unless_the_terms_say_more() -> None:
    pen = quorum(deny_quorum=1)
    pen.decide("reject", by="ada")
    assert pen.state() == "rejected"


@each(
    ("first", "second"),
    [
        ({"verdict": "approve"}, {"verdict": "edit", "args": '{"n":2}'}),
        ({"verdict": "edit", "args": '{"n":2}'}, {"verdict": "approve"}),
        ({"verdict": "edit", "args": '{"n":2}'}, {"verdict": "edit", "args": '{"n":3}'}),
        ({"verdict": "answer", "output": 1}, {"verdict": "answer", "output": 2}),
        ({"verdict": "approve"}, {"verdict": "answer", "output": 1}),
        ({"verdict": "reject"}, {"verdict": "approve"}),
    ],
)
def test_only_voices_for_the_same_thing_make_a_quorum(first: dict[str, Any], second: dict[str, Any]) -> None:
    pen = quorum()
    pen.decide(**first, by="ada")
    pen.decide(**second, by="bob")
    assert pen.state() == "asked"
    pen.decide(**second, by="cyd")
    assert pen.state() not in ("asked", "in_doubt")
    assert pen.run.decided[CALL].args == second.get("args")


def test_two_who_edit_alike_are_two() -> None:
    pen = quorum()
    pen.decide("edit", by="ada", args='{"n":2}')
    pen.decide("edit", by="bob", args='{"n":2}')
    assert (pen.state(), pen.call().params) == ("edited", {"n": 2})


def test_voices_are_void_with_the_call_they_were_for() -> None:
    pen = quorum()
    pen.decide("approve", by="ada")
    pen(cm.VoidCall(CALL, replace(pen.call().proposal, tool="t2"), "changed"))
    pen.decide("approve", by="bob")
    assert pen.state() == "asked"


def test_a_doubt_is_resolved_by_one() -> None:
    pen = quorum()
    pen.decide("approve", by="ada")
    pen.decide("approve", by="bob")
    pen.begin()
    pen(cm.LoseCall(CALL, "lost"))
    pen.decide("ran", by="ada")
    assert pen.state() == "ran"


def test_a_vote_that_went_stale_can_be_cast_again() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(quorum=3, execute_by="1h")))
    pen.decide("approve", by="ada")
    pen.now = HOUR + 1
    for by in ("bob", "ada"):
        pen.decide("approve", by=by)
    assert pen.decide("approve", by="ada") == [], "repeated in time it is the same voice"
    pen.decide("approve", by="cyd")
    assert pen.state() == "approved"
