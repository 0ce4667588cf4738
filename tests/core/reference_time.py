"""What time does to a run, by the book: requests run out, are asked again and escalated; approvals go stale."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core.durations import milliseconds
from tests.core.reference_beside import Beside
from tests.core.reference_rules import need
from tests.core.reference_seen import READY


class Time(Beside):
    """A run and the clock."""

    decided: dict[str, Any]

    def ask_again(self, call: Any) -> None:
        """It starts anew: what was said on it counts no more."""
        call |= {"since": self.now, "votes": {}, "times": call["times"] + 1, "warned": False}
        call |= {"revoked": True, "marks": {}, "sure": None, "withdrawn": []}

    def begins(self, call: Any, terms: Any) -> int:
        """Since when it asks: where an approval was withdrawn, it has the time that it had left on the same terms."""
        before, pended = call.pop("left", (None, 0))
        return self.now - (pended if before == terms else 0)

    def late(self, call: Any) -> bool:
        limit = call["terms"].expires if call["terms"] else None
        return bool(limit and self.now > call["since"] + milliseconds(limit))

    def stale(self, call: Any) -> bool:
        limit = call["terms"].execute_by if call["terms"] else None
        made = call["decision"] and (call["let"] if call["decision"].via == "probe" else call["decision"])
        since = made.at if made else call["granted_at"] if call["granted"] else None
        return bool(limit and since is not None and self.now > since + milliseconds(limit))

    def may_run(self, call: Any) -> bool:
        frame, others = self.frames[call["frame"]], self.open(call["frame"])
        late = all(other["proposal"].last or other["proposal"].by_provider for other in others)
        late = late or not call["proposal"].last or call["proposal"].by_provider
        sent = not call["proposal"].by_provider or all(self.sent(each) for each in others)
        return not frame["guard"] and not frame["tripped"] and (not frame["barrier"] or (late and sent))

    def sent(self, call: Any) -> bool:
        """Whether the next question to the model may hold a call."""
        ready = call["state"] in READY and not call["recheck"]
        return call["proposal"].by_provider and (ready or call["state"] == "started")

    def tick(self, c: cm.Tick) -> None:
        if self.status not in ("running", "failed"):
            return
        for call in self.waiting():
            if call["state"] == "asked" and call["terms"] and call["terms"].expires:
                self.pass_time(call, call["terms"])
        for call in list(self.calls.values()):
            if call["state"] in READY and self.stale(call):
                self.take_back(call, self.stated(call))

    def pass_time(self, call: Any, terms: Any) -> None:
        """What the clock does to a request: it warns once, and when time is up asks others, asks again, or ends it."""
        whole = milliseconds(terms.expires)
        before = whole // 4 if terms.warn_before is None else milliseconds(terms.warn_before)
        if not self.late(call):
            call["warned"] = call["warned"] or self.now >= call["since"] + max(0, whole - before)
        elif terms.on_expiry == "escalate":
            names = [name for name in terms.escalate_to if not name.startswith("role:")]
            roles = [name[5:] for name in terms.escalate_to if name.startswith("role:")]
            call["terms"] = replace(
                terms, users=names, role=roles[0] if roles else None, on_expiry="reject", escalate_to=()
            )
            self.ask_again(call)
        elif terms.on_expiry == "ask_again" and call["times"] - call["opened"] + 1 < terms.max_asks:
            self.ask_again(call)
        else:
            call["state"] = "expired"
            self.decided[call["id"]] = cm.Decision(call["id"], "expire", self.shown(call), via="clock")

    def switch_agent(self, c: cm.SwitchAgent) -> None:
        self.alive()
        need(c.frame in self.frames and not self.frames[c.frame]["barrier"])
        self.frames[c.frame]["agent"] = c.agent

    def guard_frame(self, c: cm.GuardFrame) -> None:
        if self.status in ("running", "failed") and c.frame in self.frames and self.frames[c.frame]["guard"]:
            need(c.seen == self.frames[c.frame]["unseen"])
            self.frames[c.frame] |= {"guard": "", "unseen": 0, "tripped": any(report.tripped for report in c.reports)}
