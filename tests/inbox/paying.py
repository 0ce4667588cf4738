"""People who decide payments, and a tool that only notes what it paid. No test is here."""

from __future__ import annotations

from typing import Any

from keyturn import Approval, Decider, function_tool

ANN = Decider("ann", roles=("ops",), strength="authenticated")
BOB = Decider("bob", roles=("ops",), strength="authenticated")
CHIEF = Decider("cyd", roles=("chief",), strength="authenticated")
EVE = Decider("eve", strength="authenticated")
#: What was paid in this test.
paid: list[int] = []


def paying(**terms: Any) -> Any:
    """Make a tool that pays, and asks on these terms."""

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    return function_tool(pay, needs_approval=True, approval=Approval(**terms) if terms else None)
