"""What a run lends to calls of other runs, borrows for its own, and takes back, by the book."""

from __future__ import annotations

from typing import Any

from keyturn.core import commands as cm
from tests.core.reference_rules import need
from tests.core.reference_seen import Seen


class Loans(Seen):
    """The grants of a run, and what of them went elsewhere or came from there."""

    status: str
    now: int
    grants: dict[str, Any]

    def __init__(self) -> None:
        self.lent: dict[tuple[str, str], str] = {}

    def lend_grant(self, c: cm.LendGrant) -> None:
        need(c.grant in self.grants and c.run != "run")
        grant = self.grants[c.grant]
        terms = grant["terms"]
        need(not grant["revoked"] and terms.call is None and terms.reach and terms.reach in c.reaches)
        need(terms.expires_at is None or self.now < terms.expires_at)
        if self.lent.get((c.run, c.call)) == c.grant:
            return
        need((c.run, c.call) not in self.lent and (terms.uses is None or grant["uses"] < terms.uses))
        grant["uses"] += 1
        self.lent[c.run, c.call] = c.grant

    def borrow_grant(self, c: cm.BorrowGrant) -> None:
        need(self.status not in ("finished", "cancelled"))
        if c.grant.id in self.grants or self.status == "failed":
            return
        need(c.grant.call and c.grant.reach and c.grant.uses == 1 and c.grant.verdict == "approve")
        need(c.home not in ("", "run"))
        self.grants[c.grant.id] = {"terms": c.grant, "uses": 0, "revoked": False}

    def covering(self, call: Any) -> list[Any]:
        """What covers a call, the one that counts last: the newest, of those that were given here where there are."""
        given = sorted(self.grants.values(), key=lambda grant: grant["terms"].call is None)
        return [grant for grant in given if self.covers(grant, call)]

    def covers(self, grant: Any, call: Any) -> bool:
        raise NotImplementedError

    def revoke(self, c: cm.Revoke) -> None:
        need(c.grant in self.grants and not self.grants[c.grant]["revoked"])
        given = self.grants[c.grant]
        need(given["terms"].verdict == "approve" or self.known_here({"terms": given["asked"]}, c.decider))
        self.grants[c.grant]["revoked"] = True
