"""Describe what people said of a request so far, for those who read it: votes, steps that are met, marks and looks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .approval import Approval
from .encodable import Encodable, in_milliseconds
from .people import named
from .records import Word


class Vote(Encodable, frozen=True, omit_defaults=True):
    """Describes what somebody decided about a request, and when.

    `params` are those of an edit, secrets redacted. `acting_for` is in whose place they decided, as a delegate.

    >>> from datetime import UTC, datetime
    >>> Vote("ada", "approve", datetime(2026, 11, 2, tzinfo=UTC)).by
    'ada'
    """

    by: str
    verdict: Word
    at: datetime
    params: Any = None
    note: str | None = None
    acting_for: str = ""

    @property
    def named(self) -> str:
        """Return who it was in words, with the name of whom they decided for.

        >>> from datetime import UTC, datetime
        >>> Vote("eve", "approve", datetime(2026, 11, 2, tzinfo=UTC), acting_for="bob").named
        'eve for bob'
        """
        return named(self.by, self.acting_for)


class MetStep(Encodable, frozen=True, omit_defaults=True):
    """Describes a step of an approval chain that is met: its terms, and the votes that met it.

    >>> MetStep(Approval(role="manager")).terms.role
    'manager'
    """

    terms: Approval
    votes: tuple[Vote, ...] = ()


class Mark(Encodable, frozen=True, omit_defaults=True):
    """Says who marked a request, and until when: who is on it, or who does not want to see it for a while.

    >>> from datetime import UTC, datetime
    >>> Mark("ada", datetime(2026, 11, 2, tzinfo=UTC)).by
    'ada'
    """

    by: str
    until: datetime

    def lasts(self, now: int) -> bool:
        """Return whether it has not ended at a time in milliseconds."""
        return in_milliseconds(self.until) > now


class Look(Encodable, frozen=True, omit_defaults=True):
    """Says since when somebody has had a request on the screen, as it is asked now.

    >>> from datetime import UTC, datetime
    >>> Look("ada", datetime(2026, 11, 2, tzinfo=UTC)).by
    'ada'
    """

    by: str
    at: datetime
