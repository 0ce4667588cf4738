"""The record of a server: decisions searched, verified and exported, and insights of how people decide."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ..audit.decisions.entry import AuditEntry
from ..directory.read_lines import Read
from ..inbox.figures import InsightsReport
from ..inbox.replayed import Suggestion
from ..support.whole_files import replaced
from ..wire import bodies
from ..wire.records import AuditPage, PolicySeen, ReadsPage, ReplayReport, Suggestions, Verified
from .sending import Sender


class AsyncAudit:
    """Searches, verifies and exports the record of a server."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def search(self, *, after: str | None = None, limit: int = 100, **terms: Any) -> Sequence[AuditEntry]:
        """Return who decided what, when and on which bytes, the oldest run first."""
        since, until = terms.pop("between", (None, None))
        asked = terms | {"since": since, "until": until, "after": after}
        return [each async for page in self._sender.pages("/audit", AuditPage, limit, **asked) for each in page.entries]

    async def reads(
        self, *, person: str | None = None, request: str | None = None, limit: int = 10_000
    ) -> Sequence[Read]:
        """Return who read the arguments of calls, the oldest first: what is on record of it."""
        pages = self._sender.pages("/audit/reads", ReadsPage, limit, person=person, request=request)
        return [each async for page in pages for each in page.reads]

    async def verify(self) -> Verified:
        """Have every line of the store verified."""
        return await self._sender.get("/audit/verify", Verified, 300.0)

    async def export(self, out: str | Path, *, format: Literal["jsonl", "csv"] = "csv", **terms: Any) -> None:
        """Export the record into a file."""
        made = await self._sender.posted("/audit/export", bodies.Export(format=format, **terms))
        with replaced(Path(out)) as stream:
            stream.write(made)


class AsyncInsights:
    """Tells how people decide at a server."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def report(self, *, days: int = 30) -> InsightsReport:
        """Return what was counted in so many days."""
        return await self._sender.get("/insights", InsightsReport, days=days)

    async def suggestions(self, *, tool: str | None = None) -> Sequence[Suggestion]:
        """Return rules that would have let run what people approved unchanged."""
        return (await self._sender.get("/insights/suggestions", Suggestions, tool=tool)).suggestions


class AsyncPolicies:
    """Shows the policy of a server's app, and what it or another one would have said of past calls."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def get(self) -> PolicySeen:
        """Return the policy of the app."""
        return await self._sender.get("/policies", PolicySeen)

    async def shadow(self, *, since: str | None = None, examples: int = 3) -> ReplayReport:
        """Return what a policy in shadow mode said of past calls."""
        return await self._sender.get("/policies/shadow", ReplayReport, 60.0, since=since, examples=examples)

    async def replay(self, policy: str, *, since: str | None = None, examples: int = 3) -> ReplayReport:
        """Return what a policy, the text of its file, would have said of past calls; nothing is changed."""
        body = bodies.Replay(policy=policy, since=since, examples=examples)
        return await self._sender.post("/policies/replay", ReplayReport, body)
