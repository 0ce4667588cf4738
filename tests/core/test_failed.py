"""A run that failed goes on by the word of a person, and by nothing else that is recorded in it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core.approval import Approval
from keyturn.core.errors import Conflict
from keyturn.core.run import call_digest
from tests.core.samples import Pen, asked, grant, person, tool, user
from tests.table import each

FREE, ASKS, LET, PAIR = (f"r/1.{place}" for place in range(4))
ADA = person("ada")


def failed(error: cm.RunCommand | None = None) -> Pen:
    """A run that failed: a call is free to run, one and a pair's wait, one was approved with a grant for other runs."""
    expiring, pair = Approval(expires="10s"), Approval(quorum=2)
    other = {"tool": "t2"}
    pen = asked(
        tool("c0", tool="t0"),
        tool("c1", "ask", terms=expiring, tool="t3"),
        tool("c2", "ask", **other),
        tool("c3", "ask", terms=pair, tool="t4"),
    )
    given = replace(grant("g", tool="t2"), reach="here")
    pen(cm.Deliver([pen.decision("approve", LET, by=given.decider)], [given]))
    pen(error or cm.Fail("Error"))
    return pen


def shown(pen: Pen, call: str = ASKS) -> str:
    return call_digest(pen.run, pen.call(call))


OTHERS: dict[str, Callable[[Pen], object]] = {
    "a call of another run uses its grant": lambda pen: pen(cm.LendGrant("g", ["here"], "other", FREE)),
    "its grant is revoked": lambda pen: pen(cm.Revoke("g", ADA)),
    "a request of it expires": lambda pen: pen(cm.Tick(), at=20_000),
    "a request of it is claimed": lambda pen: pen(cm.MarkCall(ASKS, shown(pen), "claim", ADA, 99)),
    "a request of it is looked at": lambda pen: pen(cm.RecordLook(ASKS, shown(pen), ADA)),
    "its context is saved": lambda pen: pen(cm.SaveContext({"n": 1})),
    "its store is restored from a copy": lambda pen: pen(cm.RecordRestore("a copy", "n")),
}
PEOPLE: dict[str, Callable[[Pen], object]] = {
    "approve": lambda pen: pen.decide("approve", ASKS, by="ada"),
    "reject": lambda pen: pen.decide("reject", ASKS, by="ada"),
    "vote": lambda pen: pen.decide("approve", PAIR, by="ada"),
    "withdraw": lambda pen: pen(cm.Withdraw(LET, ADA)),
    "send": lambda pen: pen(cm.AddInput("r", [user("go on")])),
    "resume": lambda pen: pen(cm.Resume(decider=ADA)),
}


@each("event", OTHERS)
def test_a_run_that_failed_is_not_resumed_by_what_happens_to_it(event: str) -> None:
    pen = failed()
    assert OTHERS[event](pen), "something was recorded"
    assert (pen.run.status, pen.does()) == ("failed", [])
    if pen.state(FREE) == "allowed":
        assert "resumed" in str(pen.refuses(Conflict, cm.StartCall(FREE, "t0")))


@each("word", PEOPLE)
def test_a_run_that_failed_goes_on_by_the_word_of_a_person(word: str) -> None:
    pen = failed()
    PEOPLE[word](pen)
    assert (pen.run.status, pen.run.error) == ("running", "")
    assert f"run {FREE}" in pen.does()
    assert pen.copy().run == pen.run


def test_a_decision_that_is_repeated_resumes_nothing() -> None:
    """A client that got no answer sends it again, and the run failed since."""
    pen = failed()
    said = pen.decision("approve", PAIR, by="ada")
    pen(cm.Deliver([said]))
    pen(cm.Fail("Error"))
    assert pen(cm.Deliver([said])) == []
    assert pen.run.status == "failed"


def test_a_message_that_is_repeated_under_its_name_resumes_nothing() -> None:
    pen = failed()
    pen(cm.AddInput("r", [user("go on")], "once"))
    pen(cm.Fail("Error"))
    assert pen(cm.AddInput("r", [user("go on")], "once")) == []
    assert pen.run.status == "failed"


@each("word", [word for word in PEOPLE if word != "resume"])
def test_a_run_that_was_set_aside_goes_on_by_a_resume_alone(word: str) -> None:
    pen = failed(cm.Fail("SetAside", lost=3))
    PEOPLE[word](pen)
    assert (pen.run.status, pen.run.lost, pen.does()) == ("failed", 3, [])


def test_a_run_whose_store_was_restored_is_not_resumed_by_a_message() -> None:
    """A person decides what its calls did, or resumes it."""
    pen = failed(cm.RecordRestore("a copy", "n"))
    pen(cm.AddInput("r", [user("go on")]))
    assert pen.run.status == "failed"
    pen.decide("approve", ASKS, by="ada")
    assert pen.run.status == "running"
