"""The seam to who knows people: it says why their signatures, or their standing decisions, do not apply now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...core.people import Decider
from ...core.policy import Approval
from ...core.run import Call, Run


class Witness(Protocol):
    """Answers for the people of a run's journal; each answer is "" where nothing speaks against it."""

    async def objection(self, run: Run, call: Call, terms: Sequence[Approval]) -> str:
        """Return why the signatures on a call do not count by these terms."""
        ...

    async def lapsed(self, who: Decider, terms: Sequence[Approval], requester: str | None) -> str:
        """Return why a grant of somebody does not apply to a call on these terms any more."""
        ...
