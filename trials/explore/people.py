"""The people of the small worlds: as the core is given them, and what is known of them beside it.

The oracle judges by `FACTS` alone, which no decision carries: what a decider says of themselves proves nothing there.
"""

from __future__ import annotations

from typing import NamedTuple

from keyturn.core.people import Decider


class Facts(NamedTuple):
    """What is true of somebody: their roles, for whom they stand in, and whether they logged in."""

    roles: frozenset[str]
    principal: str
    known: bool = True
    requester: bool = False


REQUESTER = "eve"

ANN = Decider("ann", ("pay",), "authenticated")
BOB = Decider("bob", ("pay",), "authenticated")
DEE = Decider("dee", ("pay",), "authenticated", acting_for="ann")
EVE = Decider(REQUESTER, ("pay",), "authenticated")
FAY = Decider("fay", ("pay",), "authenticated", acting_for=REQUESTER)
MAL = Decider("mal", ("sales",), "authenticated")
NED = Decider("ned", ("pay",))
ZOE = Decider("zoe", ("chief", "pay"), "authenticated")

FACTS: dict[str, Facts] = {
    "ann": Facts(frozenset({"pay"}), "ann"),
    "bob": Facts(frozenset({"pay"}), "bob"),
    "dee": Facts(frozenset({"pay"}), "ann"),
    "eve": Facts(frozenset({"pay"}), "eve", requester=True),
    "fay": Facts(frozenset({"pay"}), REQUESTER),
    "mal": Facts(frozenset({"sales"}), "mal"),
    "ned": Facts(frozenset(), "ned", known=False),
    "zoe": Facts(frozenset({"chief", "pay"}), "zoe"),
}

WHO: dict[str, str] = {
    "ann": "ann",
    "bob": "bob",
    "dee": "dee (for ann)",
    "eve": "eve, the requester,",
    "fay": "fay (for eve)",
    "mal": "mal, of another role,",
    "ned": "ned, who did not log in,",
    "zoe": "zoe, the chief,",
}
