"""Approval chains, by the book: each step has people of its own, and opens when the one before it is met."""

from __future__ import annotations

from typing import Any

from keyturn.core import commands as cm
from tests.core.reference_reviews import Reviews
from tests.core.reference_rules import chain, fits, is_text, need, steps, twofold, word_of


class Chains(Reviews):
    """The steps of a call that are met, and who met them."""

    grants: dict[str, Any]

    def late(self, call: Any) -> bool:
        raise NotImplementedError

    def ask_again(self, call: Any) -> None:
        raise NotImplementedError

    def agreeing(self, call: Any, made: Any) -> list[Any]:
        raise NotImplementedError

    def stands(self, made: Any) -> bool:
        raise NotImplementedError

    def stated(self, call: Any) -> Any:
        """The terms on which it was asked: of a chain all steps."""
        return call["met"][0]["terms"] if call["met"] else call["terms"]

    def from_first(self, call: Any) -> None:
        """Its chain begins anew."""
        call |= {"terms": self.stated(call), "met": []}

    def left(self, call: Any) -> bool:
        """Whether more steps come after the one that is due."""
        return bool(call["terms"] and call["terms"].then)

    def of_several(self, call: Any) -> bool:
        return call["state"] in ("asked", "in_doubt") and (self.left(call) or bool(call["met"]))

    def voters(self, call: Any) -> list[Any]:
        """Who voted in an earlier step, unless what is asked now is on the word of all of them."""
        return [] if call["state"] == "needs" else [vote for step in call["met"] for vote in step["votes"]]

    def spoke(self, call: Any, made: Any) -> bool:
        """Whether somebody voted in an earlier step, or in their name."""
        who = made.decider
        own = set() if who is None else {word_of(who), who.id.casefold()}
        return any(own & {word_of(vote.decider), vote.decider.id.casefold()} for vote in self.voters(call))

    def is_fresh(self, call: Any, made: Any) -> bool:
        """Whether a word is of after its voter took one back."""
        placed = [place for place, by in enumerate(call["withdrawn"], 1) if made.decider and by == made.decider.id]
        return (placed[-1] if placed else 0) <= made.withdrawals <= len(call["withdrawn"])

    def step_is_met(self, call: Any, made: Any) -> None:
        others = [vote for vote in self.agreeing(call, made) if vote.decider.id != made.decider.id]
        step = {"terms": call["terms"], "votes": [*others, made], "marks": call["marks"]}
        call |= {"met": [*call["met"], step], "terms": call["terms"].then}
        self.ask_again(call)
        call["opened"] = call["times"]

    def own_vote(self, call: Any, who: Any) -> Any:
        said = [call["sure"], *call["votes"].values(), *self.voters(call)]
        own = [vote for vote in said if vote is not None and vote.decider.id == who.id]
        need(own)
        return own[0]

    def withdraw_vote(self, call: Any, c: cm.Withdraw) -> None:
        """Take a vote back; one that met a step with all that came after it, and that step asks anew."""
        vote = self.own_vote(call, c.decider)
        need(c.digest in (None, self.shown(call)) and not (call["state"] == "asked" and self.late(call)))
        need((c.note is None or is_text(c.note)) and (vote.proof is None or c.proof is not None))
        need(vote.decider.strength == "claimed" or c.decider.strength != "claimed")
        met = [place for place, step in enumerate(call["met"]) if vote in step["votes"]]
        if met and call["state"] != "needs":
            call["terms"], call["met"] = call["met"][met[0]]["terms"], call["met"][: met[0]]
            self.ask_again(call)
            call["opened"] = call["times"]
            return
        call["withdrawn"].append(c.decider.id)
        if vote is call["sure"]:
            call |= {"sure": None, "votes": {}}
        else:
            del call["votes"][c.decider.id]

    def meet_all(self, call: Any, made: Any, terms: Any) -> bool:
        """Whether those who decided a call meet other terms: each step of those by one of theirs, in this order."""
        if terms.then is None and not call["met"]:
            return self.met_last(call, made, terms)
        left = [*call["met"], None]
        for due in chain(terms):
            while left:
                step = left.pop(0)
                if self.met_last(call, made, due) if step is None else self.met_then(step, due):
                    break
            else:
                return False
        return True

    def met_then(self, step: Any, terms: Any) -> bool:
        """Whether those who met an earlier step meet other terms."""
        votes = step["votes"]
        if terms == chain(step["terms"])[0]:
            return True
        if twofold(terms):
            return False
        known = all(fits(terms, vote.decider, vote.proof, self.requester) for vote in votes)
        read = all(self.read({"marks": step["marks"]}, terms, vote, vote.at) for vote in votes)
        wanted = terms.reason == "required" and not (votes[-1].note or votes[-1].message)
        return known and read and not wanted and len({word_of(vote.decider) for vote in votes}) >= terms.quorum

    def met_last(self, call: Any, made: Any, terms: Any) -> bool:
        """Whether those who decided a call in its last step, or its only one, meet other terms."""
        if call["met"] and terms == chain(call["terms"])[0]:
            return True
        if twofold(terms):
            first, terms = steps(terms)
            sure = call["sure"]
            if sure is None or not fits(first, sure.decider, sure.proof, self.requester):
                return False
            if not self.read(call, terms, sure, sure.at):
                return False
        if not all(self.read(call, terms, said, said.at) for said in (made, *self.agreeing(call, made))):
            return False
        heard = [(vote.decider, vote.proof) for vote in self.agreeing(call, made)]
        giver = self.grants[made.grant]["terms"].decider if made.via == "grant" and self.stands(made) else made.decider
        heard.append((giver, made.proof))
        known = all(fits(terms, who, proof, self.requester) for who, proof in heard)
        if call["state"] == "supplied":
            return known
        most = 1 if made.verdict in ("ran", "did_not_run") else terms.quorum
        wanted = terms.reason == "required" and not (made.note or made.message)
        return known and not wanted and len({word_of(who) for who, _proof in heard}) >= most
