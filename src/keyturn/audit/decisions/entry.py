"""Hold one decision on record as the audit shows it: data alone, which a client has without what makes it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from ...core.encodable import Encodable, moment
from ...core.people import named

What = Literal[
    "decision", "vote", "withdrawal", "verdict", "recheck", "review", "drill", "grant", "revocation", "cancellation",
    "damage",
]  # fmt: skip


class AuditEntry(Encodable, frozen=True, omit_defaults=True):
    """Describes one decision on record.

    `what` says what it is: a "decision" that settled a request, a "vote" that did not yet, the "withdrawal" of either,
    a "verdict" of a tool or a policy, the policy's "recheck" of a decision ("upheld", "more", "deny"), a "review" of a
    call that had been let run, the end of a "drill", a "grant" and its "revocation", a "cancellation" of the run. Of an
    answer, and of a call that is resolved as ran, `answer` is what was given as its result; of a grant `granted` says
    for which arguments, until when, for how many calls and in which runs. `message` is a question to the agent, or
    words for it. `acting_for` is in whose place `by` decided, as a delegate, and whose the roles are. "damage" says
    that the log cannot be read from there on. `digest` names the bytes that were decided on, `arguments` shows them as
    they were proposed and `edited` what a person made of them, both with secrets redacted. `key` names the place of the
    entry, for the next page.

    >>> from datetime import UTC, datetime
    >>> AuditEntry("5.run.0.0", "run", 0, datetime(2026, 11, 2, tzinfo=UTC), "decision", "approve").by
    ''
    """

    key: str
    run: str
    line: int
    at: datetime
    what: What
    verdict: str
    by: str = ""
    via: str = ""
    strength: str = ""
    roles: tuple[str, ...] = ()
    tool: str = ""
    agent: str = ""
    call: str = ""
    request: str = ""
    digest: str = ""
    arguments: str = ""
    edited: str = ""
    note: str = ""
    message: str = ""
    proof: str = ""
    answer: str = ""
    granted: str = ""
    acting_for: str = ""

    @property
    def named(self) -> str:
        """Return who decided in words, with the name of whom they decided for."""
        return named(self.by, self.acting_for)


def damage(run: str, started_at: int, line: int, at: int, why: str) -> AuditEntry:
    """Make the entry that stands for lines which cannot be read."""
    key = f"{started_at}.{run}.{line}.0"
    return AuditEntry(key, run, line, moment(max(at, 0)), "damage", "damaged", note=why)


def decides(entry: AuditEntry) -> bool:
    """Return whether an entry is what people decided, or says that a call was allowed without a decision."""
    return entry.what not in ("verdict", "recheck") or (entry.what == "verdict" and entry.verdict == "allow")


def texts(entry: AuditEntry) -> str:
    """Return all that an entry says, to be searched."""
    return "\n".join(str(value) for value in msgspec.structs.asdict(entry).values()).casefold()
