"""What a server tells of the record: decisions searched, a verification, policies tried, insights."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..audit.decisions.entry import AuditEntry
from ..directory.read_lines import Read
from ..inbox.replayed import Replayed, Suggestion, Unread


class AuditPage(msgspec.Struct, frozen=True):
    """Holds a page of decisions; `next` is the `after` of the page that follows, null where there is none.

    `late` says that time ran out before the page was full: it goes on with `next`.
    """

    entries: list[AuditEntry]
    next: str | None
    late: bool = False


class Verified(msgspec.Struct, frozen=True):
    """Says whether the store is as it was written, and what is not; `proven` counts what signatures cover."""

    ok: bool
    complete: bool
    runs: int
    lines: int
    proven: int
    erased: int
    found: int
    faults: list[dict[str, Any]]
    notes: list[str]


class ReadsPage(msgspec.Struct, frozen=True):
    """Holds a page of who read what; `next` is the place of the one that follows, null if there is none."""

    reads: list[Read]
    next: int | None


class PolicySeen(msgspec.Struct, frozen=True):
    """Shows the policy of the app: an operator's file as text where it is rules, else what it is."""

    kind: str
    rules: int
    shadow: bool
    text: str | None


class ReplayCount(msgspec.Struct, frozen=True):
    """Counts the calls of a tool that were treated in one way and would be in another."""

    tool: str
    was: Literal["allow", "ask", "deny", "unknown"]
    would: Literal["allow", "ask", "deny", "unknown"]
    calls: int
    examples: list[Replayed]


class ReplayReport(msgspec.Struct, frozen=True):
    """Tells what a policy would have said of past calls; `whole` is false where there were too many to look at."""

    calls: int
    changed: int
    counts: list[ReplayCount]
    unread: list[Unread]
    whole: bool


class Suggestions(msgspec.Struct, frozen=True):
    """Lists rules that would spare people what they always approve."""

    suggestions: list[Suggestion]
