"""The record of a server: decisions searched, verified and exported, and insights of how people decide."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ..audit.decisions.entries import AuditEntry
from ..inbox.insights import InsightsReport
from ..inbox.suggestions import Suggestion
from ..wire import said
from ..wire.records import AuditPage, Suggestions, Verified
from .sending import Sender

_PAGE = 200


class AsyncAudit:
    """Searches, verifies and exports the record of a server."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def search(self, *, after: str | None = None, limit: int = 100, **terms: Any) -> Sequence[AuditEntry]:
        """Return who decided what, when and on which bytes, the oldest run first."""
        found: list[AuditEntry] = []
        since, until = terms.pop("between", (None, None))
        while True:
            asked = terms | {"since": since, "until": until, "after": after, "limit": min(limit - len(found), _PAGE)}
            page = await self._sender.get("/audit", AuditPage, **asked)
            found += page.entries
            after = page.next
            if after is None or len(found) >= limit:
                return found

    async def verify(self) -> Verified:
        """Have every line of the store verified."""
        return await self._sender.get("/audit/verify", Verified, 300.0)

    async def export(self, out: str | Path, *, format: Literal["jsonl", "csv"] = "csv", **terms: Any) -> None:
        """Export the record into a file."""
        made = await self._sender.posted("/audit/export", said.Export(format=format, **terms))
        Path(out).write_bytes(made)


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
