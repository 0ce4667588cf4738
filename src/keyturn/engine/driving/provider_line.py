"""The seam to a connection by which a model is talked to: it is sent what approves calls that its provider makes.

A connection that asked about such a call is the only one that can be sent its approval, and tells how the call ended.
"""

from __future__ import annotations

from typing import Protocol

from ...core.items import Item
from ...core.run import Call

#: What the model reads of an approval that no connection can be sent.
NO_LINE = (
    "It was approved, but the connection that requested it has ended, so it did not run: request it again if it is "
    "still needed."
)


class NotSent(Exception):
    """Raised for an approval that was not sent, so that the provider ran nothing.

    >>> raise NotSent
    Traceback (most recent call last):
    ...
    keyturn.engine.driving.provider_line.NotSent
    """


class ProviderLine(Protocol):
    """Sends approvals of calls that the provider makes itself."""

    async def refusal(self, call: Call) -> str:
        """Return why the approval of a call cannot be sent, as its model reads it; "" where it can."""
        ...

    async def approve(self, call: Call, item: Item) -> None:
        """Send what approves a call, and wait until its provider has ended it.

        Raise `NotSent` where nothing was sent, and `OutcomeUnknown` where nobody can tell how the call ended.
        """
        ...
