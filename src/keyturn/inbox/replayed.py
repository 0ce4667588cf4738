"""Hold what a replay of past calls found: how a call was judged and how it would be, and a rule that it suggests."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Said = Literal["allow", "ask", "deny", "unknown"]


class Replayed(msgspec.Struct, frozen=True):
    """Tells of one call what was said of it, and what would be; `arguments` come with secrets redacted.

    >>> Replayed("r", "r/1.0", 5, "pay", "desk", {}, "allow", "ask").changed
    True
    """

    run: str
    call: str
    at: int
    tool: str
    agent: str
    arguments: Any
    was: Said
    would: Said
    reason: str = ""

    @property
    def changed(self) -> bool:
        """Return whether the call would surely be treated in another way."""
        return "unknown" not in (self.was, self.would) and self.was != self.would


class Unread(msgspec.Struct, frozen=True):
    """Names a run that could not be read, and why."""

    run: str
    why: str


class Suggestion(msgspec.Struct, frozen=True):
    """Suggests to let calls of a tool run unasked that satisfy `where`.

    Of the newest requests of this tool of this agent, people decided `decided`, and approved `approved` of them as they
    were asked; the rule would have let run `saves` of these, and none of the others. `free` are the arguments that
    it holds to no values. `policy` is the rule as an operator's file has it.

    >>> Suggestion("pay", "desk", 120, 120, 96, {"amount": {"le": 50}}, [], "").says
    '120 of 120 approved unchanged: this rule would have saved 96'
    """

    tool: str
    agent: str
    decided: int
    approved: int
    saves: int
    where: dict[str, Any]
    free: list[str]
    policy: str

    @property
    def says(self) -> str:
        """Return what it is founded on."""
        return f"{self.approved} of {self.decided} approved unchanged: this rule would have saved {self.saves}"
