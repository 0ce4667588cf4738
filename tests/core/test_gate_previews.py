"""Previews that are recorded with the verdict: a decision is for the world that was shown."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.errors import BadJson, Conflict
from keyturn.core.preview import Preview, Text
from tests.core.samples import ALLOW, ASK, DENY, Pen, asked, grant, person, tool

CALL = "r/1.0"
OLD, NEW = (Preview((Text(words),), basis={"notes.txt": words}) for words in ("old", "new"))


def shown(preview: Preview | None = OLD, **more: Any) -> Pen:
    """A call that asks, with what was recorded for people to see."""
    pen = asked(tool("c0", "", **more), tool("c1", "ask", tool="t2"))
    pen(cm.Screen(CALL, replace(ASK, terms=more.get("terms")), preview=preview))
    return pen


def look_again(pen: Pen, preview: Preview) -> None:
    """The world changed: the call is void, and asks with what would change now."""
    pen(cm.VoidCall(CALL, pen.call().proposal, "the world changed"))
    pen(cm.Screen(CALL, ALLOW, preview=preview))


def test_what_was_shown_is_in_the_log() -> None:
    pen = shown()
    assert pen.copy().call().preview == OLD
    assert pen.copy().run == pen.run


def test_a_decision_is_bound_to_what_it_was_made_of_and_not_to_its_words() -> None:
    digests = [shown(preview).decision("approve").digest for preview in (None, OLD, NEW)]
    assert len(set(digests)) == 3
    other = Preview((Text("the same, told in other words"),), basis=OLD.basis)
    assert shown(other).decision("approve").digest == digests[1]


def test_who_is_not_asked_is_shown_nothing() -> None:
    for verdict in (ALLOW, DENY):
        pen = asked(tool("c0", ""), tool("c1", "ask"))
        [event] = pen(cm.Screen(CALL, verdict, preview=OLD))
        assert isinstance(event, ev.CallScreened)
        assert (event.preview, pen.call().preview) == (None, None)


def test_what_a_grant_covers_is_shown_to_nobody() -> None:
    pen = asked(tool("c0", ""), tool("c1", "ask"))
    pen(cm.Deliver([pen.decision("approve", "r/1.1", by="ada")], [grant()]))
    pen(cm.Screen(CALL, ASK, preview=OLD))
    assert (pen.state(), pen.call().preview) == ("allowed", None)


def test_a_call_that_asks_again_needs_a_decision_about_what_it_shows_then() -> None:
    pen = shown()
    old = pen.decision("approve", by="ada")
    pen(cm.Deliver([old]))
    look_again(pen, NEW)
    assert (pen.state(), pen.call().preview) == ("asked", NEW), "what was void is never just allowed"
    pen.refuses(Conflict, cm.Deliver([old]))
    pen.decide("approve", by="ada")
    assert pen.state() == "approved"


def test_a_world_that_is_as_it_was_does_not_bring_a_decision_back() -> None:
    pen = shown()
    old = pen.decision("approve", by="ada")
    pen(cm.Deliver([old]))
    look_again(pen, NEW)
    look_again(pen, OLD)
    assert replace(pen.decision("approve", by="ada"), digest=old.digest) == old, "of another asking, at the same moment"
    pen.refuses(Conflict, cm.Deliver([old]))
    pen.refuses(Conflict, cm.Deliver([replace(old, decider=person("bob"))]))
    pen.decide("approve", by="bob")
    assert pen.state() == "approved"


def test_a_voice_for_another_world_is_no_voice() -> None:
    pen = shown(terms=Approval(quorum=2))
    pen.decide("approve", by="ada")
    pen(cm.VoidCall(CALL, pen.call().proposal, "the world changed"))
    pen(cm.Screen(CALL, replace(ASK, terms=Approval(quorum=2)), preview=NEW))
    pen.decide("approve", by="bob")
    assert pen.state() == "asked"
    pen.decide("approve", by="ada")
    assert pen.state() == "approved"


def test_a_stale_approval_is_looked_at_before_it_asks() -> None:
    pen = shown(terms=Approval(execute_by="1h"))
    pen.decide("edit", args='{"n":7}')
    pen(cm.Tick(), at=3_600_001)
    assert (pen.state(), pen.does(), pen.call().text) == ("proposed", [f"screen {CALL}"], '{"n":7}')
    pen(cm.Screen(CALL, ALLOW, preview=NEW))
    assert (pen.state(), pen.call().preview) == ("asked", NEW)


def test_a_grant_does_not_cover_what_must_be_looked_at_again() -> None:
    pen = shown()
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant()]))
    look_again(pen, NEW)
    assert (pen.state(), pen.run.grant_uses) == ("asked", {"g": 0})


def test_an_edited_call_starts_whatever_it_was_shown_with() -> None:
    """The engine has compared what both look at; the digest is of what was shown before the edit."""
    pen = shown()
    pen.decide("edit", args='{"n":7}')
    pen.begin()
    assert (pen.state(), pen.call().preview) == ("started", OLD)


@pytest.mark.parametrize("name", ["\ud800", 1])
def test_a_basis_to_which_nothing_could_be_bound_is_refused(name: str) -> None:
    pen = asked(tool("c0", ""))
    pen.refuses(BadJson, cm.Screen(CALL, ASK, preview=Preview((Text("x"),), basis={name: "5e1f"})))
