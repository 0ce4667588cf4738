"""Explain a policy's verdict: the rule that decides, its grounds, and what could not be told.

An explanation is made by the same functions that make the verdict. It names arguments and never quotes their values.
"""

from __future__ import annotations

import msgspec

from ..core.policy import Verdict


class RuleFinding(msgspec.Struct, frozen=True):
    """Holds what one rule says of a call: its verdict, or None where it does not match, and why.

    `applies` lists the conditions that hold, `untold` those of which nobody can tell; `passed` is why the rule does not
    match, "" where it does. `settles` is whether no rule below is looked at.

    >>> RuleFinding(2, "deny", Verdict("deny"), applies=("'to' is listed",)).passed
    ''
    """

    number: int
    action: str
    verdict: Verdict | None
    applies: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    passed: str = ""
    settles: bool = False

    def __str__(self) -> str:
        name = f"rule {self.number} ({self.action})"
        if self.verdict is None:
            return f"{name} does not match: {self.passed}"
        reasons = [*self.applies, *self.untold] or ["it is about every such call"]
        return f"{name} decides: {'; '.join(reasons)}"


class Explanation(msgspec.Struct, frozen=True):
    """Explains why a policy says what it says of a call.

    `verdict` is what it says, None where the tool's own setting applies; `rule` is the rule that decides, None where
    no rule does and the policy's default applies; `passed_by` are the rules above it. As a text it is one line a rule.

    >>> print(Explanation(Verdict("deny", by="policy:default")))
    no rule matches; the default is deny
    """

    verdict: Verdict | None
    rule: RuleFinding | None = None
    passed_by: tuple[RuleFinding, ...] = ()

    @property
    def untold(self) -> tuple[str, ...]:
        """Return what could not be told of the call, by the rule that decides and by those above it."""
        rules = [*self.passed_by, *([self.rule] if self.rule is not None else [])]
        return tuple(said for rule in rules for said in rule.untold)

    def __str__(self) -> str:
        lines = [str(rule) for rule in self.passed_by]
        if self.rule is not None:
            lines.append(str(self.rule))
        elif self.verdict is not None:
            lines.append(f"no rule matches; the default is {self.verdict.action}")
        else:
            lines.append("no rule matches; the tool's own setting applies")
        return "\n".join(lines)
