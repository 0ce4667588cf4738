"""Hold the approvals that one connection is sent, of calls that its provider makes, until it says how they ended.

An approval is sent once, on the connection that asked. With the connection ends what is known of its calls: of those
whose approval was sent nobody can tell, and the others did not run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from ..core.items import Item
from ..engine.driving.provider_line import NotSent
from ..tools.base import OutcomeUnknown

_ENDED = "the connection that was sent its approval ended before the provider said what became of it"


@dataclass(eq=False)
class Approval:
    """Holds what approves one call, whether it was sent, and what tells its end."""

    item: Item
    ended: asyncio.Future[None]
    sent: bool = False

    def unsent(self) -> None:
        """Let nothing come of it."""
        if not self.ended.done():
            self.ended.set_exception(NotSent())


class HostedApprovals:
    """Holds the approvals of one connection, by the requests that they answer."""

    def __init__(self) -> None:
        self._made: dict[str, Approval] = {}
        #: Whether the connection has ended.
        self.over = False

    def add(self, request: str, item: Item) -> asyncio.Future[None]:
        """Add an approval to be sent; the future is done once the provider has ended its call."""
        made = self._made[request] = Approval(item, asyncio.get_running_loop().create_future())
        if self.over:
            made.unsent()
        return made.ended

    def unsent(self) -> Iterator[Approval]:
        """Return each approval that is to be sent."""
        while found := [each for each in self._made.values() if not each.sent and not each.ended.done()]:
            yield found[0]

    def reported(self, request: str) -> None:
        """Note that the provider has ended a call."""
        made = self._made.get(request)
        if made is not None and made.sent and not made.ended.done():
            made.ended.set_result(None)

    def end(self) -> None:
        """Note that the connection has ended."""
        self.over = True
        for each in self._made.values():
            if not each.sent:
                each.unsent()
            elif not each.ended.done():
                each.ended.set_exception(OutcomeUnknown(_ENDED))
