"""What people say beside their decisions, by the book: marks, and an approval taken back."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core.durations import milliseconds
from tests.core.reference_chains import Chains
from tests.core.reference_rules import chain, fits, is_text, need, steps, twofold
from tests.core.reference_seen import READY

MONTH = 31 * 24 * 3_600_000


class Beside(Chains):
    """What is said of a call and decides nothing."""

    calls: dict[str, Any]
    requester: str | None
    now: int

    def alive(self) -> None:
        raise NotImplementedError

    def call(self, name: str, *states: str) -> Any:
        raise NotImplementedError

    def shown(self, call: Any) -> str:
        raise NotImplementedError

    def take_back(self, call: Any, terms: Any) -> None:
        raise NotImplementedError

    def known_here(self, call: Any, who: Any) -> bool:
        """Whether somebody may decide a call, whatever they sign."""
        terms = call["terms"]
        if terms is None:
            return True
        terms = chain(terms)[0]
        if (terms.signed or terms.step_up or terms.confirm) and (who is None or who.strength == "claimed"):
            return False
        bare = replace(terms, signed=False, step_up=False)
        return any(fits(step, who, None, self.requester) for step in steps(bare))

    def sure(self, call: Any) -> bool:
        """Whether the requester's word is there and fresh, or is not what is waited for."""
        if call["state"] != "asked":
            return True
        limit = call["terms"].execute_by if call["terms"] else None
        said = call["sure"]
        return said is not None and (not limit or self.now <= said.at + milliseconds(limit))

    def several(self, terms: Any, verdict: str) -> int:
        """How many must say this."""
        return 1 if verdict in ("ran", "did_not_run") else terms.deny_quorum if verdict == "reject" else terms.quorum

    def asked_now(self, call: Any) -> Any:
        """The terms of the step that is due."""
        return steps(call["terms"])[self.sure(call)]

    def in_its_way(self, call: Any, made: Any) -> bool:
        """Whether a decision that is made in a way of its own may be made so."""
        asked = call["state"] == "asked"
        early = made.verdict == "answer" and not self.sure(call)
        edits = asked and twofold(call["terms"]) and (made.verdict == "edit" or early)
        edits = edits or (asked and self.of_several(call) and made.verdict == "edit")
        edits = edits or (asked and self.left(call) and made.verdict == "answer")
        alone = not made.broke_glass or (asked and made.verdict == "approve" and made.note)
        back = not made.asks_back or (asked and made.verdict == "reject" and made.message)
        return bool(alone and back and not edits)

    def mark_call(self, c: cm.MarkCall) -> None:
        self.alive()
        call = self.call(c.call, "asked", "in_doubt", "needs")
        need(c.digest == self.shown(call) and self.known_here(call, c.decider))
        mine = {name: mark for name, mark in call["marks"].items() if name[0] == c.mark}
        name = (c.mark, c.decider.id)
        if c.until is None:
            need(c.mark == "snooze" or not mine or name in mine)
            call["marks"].pop(name, None)
            return
        need(self.now < c.until <= self.now + MONTH)
        if c.mark == "claim":
            call["marks"] = {other: mark for other, mark in call["marks"].items() if other not in mine}
        call["marks"][name] = c.until

    def stands(self, made: Any) -> bool:
        return made.grant in self.grants and not self.grants[made.grant]["revoked"]

    def withdraw(self, c: cm.Withdraw) -> None:
        self.alive()
        call = self.call(c.call, *READY, "asked", "in_doubt", "needs")
        if call["state"] not in READY:
            self.withdraw_vote(call, c)
            return
        made, granted = call["decision"], call["granted"]
        need(call["state"] != "supplied" and (made or granted) and (c.note is None or is_text(c.note)))
        need(c.digest in (None, self.shown(call), made.digest if made else None))
        votes = [*call["votes"].values(), *(vote for step in call["met"] for vote in step["votes"])]
        said = [vote.decider for vote in votes] + ([made.decider] if made else [])
        which = made.grant if made else granted
        if which in self.grants and not self.grants[which]["revoked"]:
            said.append(self.grants[which]["terms"].decider)
        sure = [who.id for who in said if who is not None and who.strength != "claimed"]
        own = c.decider.strength != "claimed" and c.decider.id in sure
        need(own or self.known_here(call, c.decider))
        goes_on = made and not call["acted"] and not call["met"]
        call["left"] = (call["terms"], made.at - call["since"]) if goes_on else (None, 0)
        self.take_back(call, self.stated(call))
