"""Policies to begin with, by what tools state of themselves: `careful`, `reads_run`, `no_deletes`, `money(...)`.

A preset is a list of rules. `Policy(*presets.careful)` is a policy, rules of your own go before them, and a file takes
one by name: `extends = "careful"`. What a tool states is its author's word: `read_only`, `risk`, its kind and its name.
"""

from __future__ import annotations

from typing import Any

from ..core.policy import Action
from .limits import Budget, Whose
from .rule import Rule

# What tools that take things away are called, in the first or the last word of their names.
_DELETING = ("delete", "remove", "drop", "destroy", "purge", "truncate", "erase", "wipe", "rm")

#: Read-only tools and handoffs run, what states a high risk takes a person with a reason, and everything else asks.
careful: tuple[Rule, ...] = (
    Rule("ask", risk="high", reason="the tool states a high risk"),
    Rule("ask", risk="critical", reason="the tool states a critical risk"),
    Rule("allow", read_only=True),
    Rule("allow", kind="handoff"),
    Rule("ask", reason="the tool may change something"),
)

#: Read-only tools run, whatever they ask for themselves; what becomes of others is for the rules below, or the tools.
reads_run: tuple[Rule, ...] = (Rule("allow", read_only=True),)

#: Only read-only tools and handoffs run at all.
read_only: tuple[Rule, ...] = (
    Rule("allow", read_only=True),
    Rule("allow", kind="handoff"),
    Rule("deny", reason="only tools that change nothing may run here"),
)

#: Tools whose names say that they delete are denied; what a shell command or an argument says is not read.
no_deletes: tuple[Rule, ...] = tuple(
    Rule("deny", tool=pattern, read_only=False, reason="nothing is deleted from here")
    for word in _DELETING
    for pattern in (word, f"{word}_*", f"*_{word}", f"*_{word}_*")
)


def money(
    limit: float,
    *,
    argument: str = "amount",
    tool: str | None = None,
    per: str | float | None = "1d",
    of: Whose = "run",
) -> tuple[Rule, ...]:
    """Return rules that let payments run up to a sum, and ask for more.

    `argument` is the amount in the calls, `tool` the tools that pay; without it, all calls are held to it, those
    without an amount too. `of` makes it the budget of a session, requester, agent or tenant.

    >>> [rule.action for rule in money(100, tool="pay_*")]
    ['ask', 'allow']
    """
    where: dict[str, Any] = {argument: {"gt": 0}}
    return (
        Rule("ask", tool=tool, over=Budget(argument, limit, per=per, of=of)),
        Rule("allow", tool=tool, where=where),
    )


#: The presets that a file can extend: their rules, and what is said where none matches.
NAMED: dict[str, tuple[tuple[Rule, ...], Action | None]] = {
    "careful": (careful, None),
    "reads_run": (reads_run, None),
    "read_only": (read_only, None),
    "no_deletes": (no_deletes, None),
}
