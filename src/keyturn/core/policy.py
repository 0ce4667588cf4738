"""Verdicts and the terms of an approval: what a policy may say of a call.

A verdict is allow, ask or deny, with a reason. Terms say who may decide, how many must, and until
when. Verdicts are facts once recorded; nothing here asks a policy, and nothing here knows the time.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from .errors import UserError

Action = Literal["allow", "ask", "deny"]
_STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")


def milliseconds(duration: str | float) -> int:
    """A duration such as "90s", "4h" or "1.5d", or a number of seconds, in milliseconds.

    >>> milliseconds("4h"), milliseconds(0.5)
    (14400000, 500)
    """
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        value = float(duration) * 1_000
    else:
        match = _DURATION.fullmatch(duration.strip()) if isinstance(duration, str) else None
        if match is None:
            raise UserError(f"{duration!r} is not a duration: write a number of seconds, or '90s', '4h', '7d'")
        value = float(match[1]) * _UNITS[match[2]]
    if not 0 < value < 1e15:
        raise UserError(f"a duration must be positive and finite, not {duration!r}")
    return round(value)


class Approval(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The terms on which a call may be approved: who, how many, until when.

    `expires` and `execute_by` take durations ("4h", seconds). Roles, users, a quorum and step-up need an
    inbox that knows who people are; on a bare state they are refused.

    >>> Approval(expires="4h").expires_ms
    14400000
    """

    role: str | None = None
    users: tuple[str, ...] = ()
    quorum: int = 1
    deny_quorum: int = 1
    not_requester: bool = False
    reason: Literal["optional", "on_reject", "required"] = "optional"
    expires: str | float | None = None
    on_expiry: Literal["reject", "escalate", "ask_again"] = "reject"
    escalate_to: tuple[str, ...] = ()
    execute_by: str | float | None = None
    step_up: bool = False

    def __post_init__(self) -> None:
        if self.quorum < 1 or self.deny_quorum < 1:
            raise UserError("a quorum is at least 1")
        for duration in (self.expires, self.execute_by):
            if duration is not None:
                milliseconds(duration)

    @property
    def expires_ms(self) -> int | None:
        """How long a decision is waited for, in milliseconds."""
        return None if self.expires is None else milliseconds(self.expires)

    @property
    def execute_by_ms(self) -> int | None:
        """How long an approval stays good, in milliseconds."""
        return None if self.execute_by is None else milliseconds(self.execute_by)

    @property
    def needs_people(self) -> bool:
        """Whether these terms need an inbox with authenticated people."""
        return bool(self.role or self.users or self.quorum > 1 or self.not_requester or self.step_up)


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool's own setting or a policy says of one call.

    >>> Verdict("ask", reason="over the limit").action
    'ask'
    """

    action: Action
    reason: str = ""
    terms: Approval | None = None
    by: str = ""


ALLOW = Verdict("allow")
ASK = Verdict("ask")


def strictest(first: Verdict, second: Verdict | None) -> Verdict:
    """The stricter of two verdicts; the first where they are equally strict."""
    if second is None or _STRICTNESS[second.action] <= _STRICTNESS[first.action]:
        return first
    return second


class CallView(msgspec.Struct, frozen=True):
    """What a policy may look at: the call that will run, never a live object of the run."""

    tool: str
    kind: str
    agent: str
    params: Any
    digest: str
    call_id: str
    risk: str | None = None
    run_id: str = ""
