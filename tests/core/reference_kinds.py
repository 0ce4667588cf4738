"""Runs by the book that wait for their turn on a session, that failed, and that are drills."""

from __future__ import annotations

import pickle
from typing import Any

from keyturn.core import commands as cm
from tests.core.reference import Reference
from tests.core.reference_rules import need

#: What a drill knows besides a decision and the time: what may be said of any request, and lets nothing run.
KNOWN = (
    *(cm.RecordReply, cm.Screen, cm.MarkCall, cm.RecordLook, cm.Withdraw, cm.Revoke, cm.GiveReview, cm.AddInput),
    *(cm.Resume, cm.SaveContext, cm.Cancel, cm.Fail, cm.RecordRestore, cm.Start),
)


class AnyRun(Reference):
    """A run of any kind. `turn` is what one that waits for its turn begins with, `ends` when a drill is over."""

    def __init__(self) -> None:
        super().__init__()
        self.turn: dict[str, Any] | None = None
        self.ends: int | None = None

    # One that waits for its turn -------------------------------------------------------------------------------------

    def queue(self, c: cm.Queue) -> None:
        need(self.status == "new")
        self.status, self.id, self.requester, self.salt = "running", c.run, c.requester, c.salt
        self.turn = {"agent": c.agent, "limit": c.max_turns}

    def begin(self, c: cm.Begin) -> None:
        self.alive()
        need(self.turn is not None)
        assert self.turn is not None
        first = cm.OpenFrame("", self.turn["agent"], c.items, self.turn["limit"], c.guarded)
        self.open_agent("r", first)
        self.turn = None

    def resume(self, c: cm.Resume) -> None:
        self.alive()
        self.status, self.told = "running", None
        if c.unlimited or c.max_turns is not None:
            limited = self.frames["r"] if self.turn is None else self.turn
            limited["limit"] = None if c.unlimited else c.max_turns

    # One that failed -------------------------------------------------------------------------------------------------

    def go_on(self) -> None:
        if self.status == "failed":
            self.status, self.told = "running", None

    def add_input(self, c: cm.AddInput) -> None:
        super().add_input(c)
        if self.told is None:
            self.go_on()

    def withdraw(self, c: cm.Withdraw) -> None:
        super().withdraw(c)
        self.go_on()

    def hear(self, c: cm.Deliver) -> None:
        before = pickle.dumps((self.calls, self.decided, self.grants))
        super().deliver(c)
        people = any(made.via not in ("grant", "clock", "probe") for made in c.decisions)
        if people and pickle.dumps((self.calls, self.decided, self.grants)) != before:
            self.go_on()

    # A drill ---------------------------------------------------------------------------------------------------------

    def start(self, c: cm.Start) -> None:
        super().start(c)
        self.ends = c.drill

    def do(self, command: cm.RunCommand, now: int) -> bool:
        unknown = self.ends is not None and not isinstance(command, (cm.Deliver, cm.Tick))
        return not (unknown and not self.known(command)) and super().do(command, now)

    def known(self, command: cm.RunCommand) -> bool:
        """Whether a drill knows a command: none once it is over, and none by which a call would not ask."""
        if self.status == "finished" or not isinstance(command, KNOWN):
            return False
        if isinstance(command, cm.RecordReply):
            return "allow" not in [made.gate for made in command.proposals]
        return not isinstance(command, cm.Screen) or (command.verdict.action == "ask" and not command.on_decision)

    def deliver(self, c: cm.Deliver) -> None:
        if self.ends is None:
            self.hear(c)
            return
        fresh = [made for made in c.decisions if not self.heard(made)]
        need(not fresh or self.status != "finished")
        for made in fresh:
            self.check(made)
            need(made.via == "person")
        if fresh:
            self.end_drill(fresh[0])

    def heard(self, made: Any) -> bool:
        return self.repeats(made) and self.decided[made.call].decider == made.decider

    def end_drill(self, made: Any) -> None:
        self.decided[made.call] = made
        self.close("r", None, "finished")

    def tick(self, c: cm.Tick) -> None:
        if self.ends is None or self.status not in ("running", "failed"):
            super().tick(c)
            return
        if self.now >= self.ends:
            waits = self.waiting()
            if waits:
                self.end_drill(cm.Decision(waits[0]["id"], "expire", self.shown(waits[0]), via="clock"))
            return
        for call in self.waiting():
            if call["state"] != "asked" or not call["terms"] or not call["terms"].expires:
                continue
            self.pass_time(call, call["terms"])
            if call["state"] == "expired":
                self.close("r", None, "finished")
                return

    def pending(self) -> set[tuple[str, str]]:
        return set() if self.ends is not None else super().pending()
