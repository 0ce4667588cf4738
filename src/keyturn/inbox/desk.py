"""The inbox: list, show and decide requests, without holding the run's lease and without its agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import commands as cm
from ..core import events as ev
from ..core.digest import digest
from ..core.people import plain_text
from ..core.settable import Sealed
from ..engine.facts.values import said_items
from .named_inbox import NamedInbox
from .naming import By as By
from .own import OwnInbox


class Inbox(NamedInbox, Sealed):
    """Lists the pending requests of a journal, and records decisions on them.

    `store` is a journal or its URL. `agents` are the roots by name; they are needed to check an edit, and for nothing
    else. `people` is the directory of the same journal. `by` is a name, which proves nothing; a `Decider(...)`, where
    the program knows who that is; or the login of somebody in the directory, which says what they may do.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(Inbox(MemoryJournal()).list())
    []
    """

    def as_person(self, by: By) -> OwnInbox:
        """Return this inbox as one person has it, who then decides everything that is decided with it."""
        return OwnInbox(self, by)

    async def send(self, run: str, message: str | Sequence[Any], *, once: str | None = None) -> None:
        """Add a message that the run's model reads at its next turn; `once` names it, so that it is added once."""
        items = said_items(message if isinstance(message, str) else [*message])
        name = "" if once is None else digest("message", run, plain_text(once, "once"))
        await self.tell(run, cm.AddInput(ev.ROOT, items, name))

    async def resume(self, run: str, *, by: By | None, max_turns: int | None = None, once: str | None = None) -> None:
        """Resume a run that failed or was set aside; a worker goes on with it.

        None is the program itself, which cannot resume a run that was set aside. `once` names it, so that the run is
        resumed once.
        """
        who = None if by is None else await self._requests.who(by)
        name = "" if once is None else digest("resume", run, plain_text(once, "once"))
        await self.tell(run, cm.Resume(max_turns, decider=who, once=name))

    async def cancel(self, run: str, *, by: By | None, why: str = "") -> None:
        """Cancel a run, for a person or for the program itself (None); what is in flight is stopped."""
        who = None if by is None else await self._requests.who(by)
        await self.tell(run, cm.Cancel(who, plain_text(why, "why")))
