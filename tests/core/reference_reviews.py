"""Looks and reviews, by the book: who had a request on the screen, and what others say of what was let run."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from keyturn.core import commands as cm
from keyturn.core.digest import digest
from keyturn.core.durations import milliseconds
from tests.core.reference_asks import Asks
from tests.core.reference_rules import glass, is_text, need, on_the_list


class Reviews(Asks):
    """What others are asked, and who looked."""

    calls: dict[str, Any]
    requester: str | None
    now: int
    salt: str

    def __init__(self) -> None:
        super().__init__()
        self.reviews: dict[str, Any] = {}

    def alive(self) -> None:
        raise NotImplementedError

    def call(self, name: str, *states: str) -> Any:
        raise NotImplementedError

    def shown(self, call: Any) -> str:
        raise NotImplementedError

    def known_here(self, call: Any, who: Any) -> bool:
        raise NotImplementedError

    def record_look(self, c: cm.RecordLook) -> None:
        self.alive()
        call = self.call(c.call, "asked", "in_doubt", "needs")
        need(c.digest == self.shown(call) and c.decider.strength != "claimed")
        emergency = {"terms": glass(call["terms"])} if call["terms"] and call["terms"].break_glass else None
        need(self.known_here(call, c.decider) or (emergency is not None and self.known_here(emergency, c.decider)))
        call["marks"].setdefault(("look", c.decider.id), self.now)

    def read(self, call: Any, terms: Any, made: Any, at: int) -> bool:
        """Whether whoever lets a call run has looked at it for long enough."""
        if terms is None or terms.min_look is None or made.verdict not in ("approve", "edit", "retry"):
            return True
        who = made.decider
        if who is None or who.strength == "claimed":
            return False
        since = call["marks"].get(("look", who.id))
        return since is not None and at - since >= milliseconds(terms.min_look)

    def sample(self, call: Any, share: float, giver: Any = None) -> None:
        """Ask others about a call that no person decided, if it is of the sample."""
        drawn = blake2b(self.shown(call).encode(), key=self.salt.encode(), digest_size=8, person=b"review").digest()
        if int.from_bytes(drawn) / 2**64 < share:
            self.ask_others(call, giver)

    def ask_others(self, call: Any, who: Any) -> None:
        before = self.reviews.get(call["id"], {"times": 0})
        names = [] if who is None else [who.id, *([who.acting_for] if who.acting_for else [])]
        times = before["times"] + 1
        bound = digest("review", self.shown(call), times)
        self.reviews[call["id"]] = {"times": times, "names": names, "terms": call["terms"], "of": bound, "said": None}

    def give_review(self, c: cm.GiveReview) -> None:
        need(c.call in self.reviews)
        review, who = self.reviews[c.call], c.decider
        need(c.digest == review["of"] and (c.note is None or is_text(c.note)))
        need(c.verdict == "right" or (c.verdict == "wrong" and c.note))
        own = {who.id.casefold(), (who.acting_for or who.id).casefold()}
        need(who.strength != "claimed" and not own & {name.casefold() for name in review["names"]})
        need(
            not who.requester
            and (self.requester or "").casefold() not in {who.id.casefold(), who.acting_for.casefold()}
        )
        terms = review["terms"]
        if terms is not None:
            left = [user for user in terms.users if user not in review["names"]]
            mine = on_the_list(who, left) or (terms.role is not None and terms.role in who.roles)
            need(mine or not (left or terms.role))
        said = (who.id, c.verdict, c.note)
        need(review["said"] in (None, said))
        review["said"] = said

    def reviewed(self) -> dict[str, Any]:
        return {name: (each["times"], each["names"], each["said"]) for name, each in self.reviews.items()}
