"""The same laws for runs that wait for their turn on a session, and for drills."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from msgspec.structs import replace

from keyturn.core import commands as cm
from tests.core.samples import start, user
from tests.core.test_laws import GUARDED, LIMIT, Commands, budget

QUEUE = cm.Queue("run", "salt", "hi", {"session": "ann"}, "a", 10, "eve")


class InTurn(Commands):
    """A run that is recorded at once and begins later: anything may be said to it meanwhile, and most of it not."""

    @initialize(limit=LIMIT)
    def begin(self, limit: int | None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # another begin
        self.do(replace(QUEUE, max_turns=limit))

    @precondition(lambda self: self.run.queued)
    @rule(data=st.data(), guarded=GUARDED)
    def early(self, data: st.DataObject, guarded: Any) -> None:
        what = data.draw(st.sampled_from([self.fail, self.resume, self.restored, self.add_input, self.close_run]))
        self.do(what(data.draw, "r"))
        if data.draw(st.booleans()):
            self.do(cm.Begin([user("hi")], guarded))

    @rule(again=st.sampled_from([QUEUE, cm.Begin([user("hi")])]))
    def begin_again(self, again: cm.RunCommand) -> None:
        self.do(again)


class Drilled(Commands):
    """A drill: nothing is ever to be done for it, whatever is said, and the first word of a person ends it."""

    @initialize(ends=st.sampled_from([100, 400]))
    def begin(self, ends: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # another begin
        self.do(start(drill=ends, requester="eve"))

    @precondition(lambda self: not self.run.calls and self.run.status == "running")
    @rule(data=st.data())
    def seems_to_ask(self, data: st.DataObject) -> None:
        self.do(self.reply(data.draw, "r"))

    @precondition(lambda self: self.run.groups["wait"])
    @rule(data=st.data())
    def is_answered(self, data: st.DataObject) -> None:
        self.do(self.deliver(data.draw, data.draw(st.sampled_from([*self.run.groups["wait"]]))))

    def check(self) -> None:
        super().check()
        assert self.run.started == 0
        assert not self.run.grants


InTurn.TestCase.settings = budget(15, 30)
Drilled.TestCase.settings = budget(15, 30)


@pytest.mark.sweep
class TestInTurn(InTurn.TestCase):
    """See `InTurn`."""


@pytest.mark.sweep
class TestDrilled(Drilled.TestCase):
    """See `Drilled`."""
