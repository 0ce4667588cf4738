"""What a call asks from inside, and how a conversation is made shorter, by the book."""

from __future__ import annotations

from typing import Any

from keyturn.core import commands as cm
from keyturn.core.usage import Counts
from tests.core.reference_loans import Loans
from tests.core.reference_rules import is_value, need


class Asks(Loans):
    """The calls of a run that were started and ask, and its conversations."""

    waits: int
    frames: dict[str, Any]
    decided: dict[str, Any]

    def alive(self) -> None:
        raise NotImplementedError

    def call(self, name: str, *states: str) -> Any:
        raise NotImplementedError

    def open(self, name: str) -> list[Any]:
        raise NotImplementedError

    def count(self, usage: Counts) -> None:
        raise NotImplementedError

    def doubt(self, call: Any) -> None:
        raise NotImplementedError

    def decide_by(self, grant: Any, call: Any) -> None:
        raise NotImplementedError

    def need_input(self, c: cm.NeedInput) -> None:
        call = self.call(c.call, "started")
        need(c.call not in self.frames)
        self.waits += 1
        if self.status in ("finished", "cancelled"):
            self.doubt(call)
            return
        need(is_value([c.requests, c.state]) and c.wants in ("answer", "result", "approval"))
        need(c.preview is None or is_value(c.preview.basis))
        if c.wants == "approval":
            self.ask_inside(call, c.preview)
            return
        call |= {
            "wants": c.wants,
            "state": "needs",
            "order": self.waits,
            "since": self.now,
            "rounds": call["rounds"] + 1,
            "votes": {},
            "marks": {},
            "sure": None,
            "withdrawn": [],
        }
        call["asks"] = [c.requests, c.state, call["rounds"]]

    def ask_inside(self, call: Any, preview: Any) -> None:
        """Its tool says that it has done nothing: it asks as if it had not been started, on the terms that held."""
        terms = self.stated(call) or call["proposal"].terms
        covering = [] if call["approved"] else self.covering(call | {"terms": terms})
        self.decided.pop(call["id"], None)
        call |= {"state": "asked", "order": self.waits, "since": self.now, "votes": {}, "times": call["times"] + 1}
        call |= {"terms": terms, "warned": False, "decision": None, "let": None, "met": [], "withdrawn": []}
        call |= {"asks": None, "basis": None if preview is None else preview.basis, "approved": False}
        call |= {"marks": {}, "sure": None}
        call["acted"] = call["doubted"] and call["proposal"].recover != "retry"
        if covering:
            self.decide_by(covering[-1], call)

    def compact_history(self, c: cm.CompactHistory) -> None:
        self.alive()
        need(self.asks(c.frame, "model") and not self.open(c.frame))
        self.count(c.usage)
        frame, last = self.frames[c.frame], 0
        need(0 <= c.seen <= len(frame["items"]))
        made: list[Any] = []
        for part in c.view:
            if isinstance(part, list):
                need(len(part) == 2 and last <= part[0] <= part[1] <= c.seen)
                last = part[1]
                made += frame["items"][part[0] : part[1]]
            else:
                made.append(part)
        frame["items"] = made + frame["items"][c.seen :]
