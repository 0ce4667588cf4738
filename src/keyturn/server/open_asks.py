"""Bound how many requests of external callers each account has open, so that one program does not fill the inbox."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from ..application.app import App
from ..journal.rows import ENDED, Query
from .limits import TooMany

_AFTER = 60
_LOOKS = 20


class TooManyOpen(TooMany):
    """Raised where an account has as many open requests as the settings allow.

    >>> str(TooManyOpen(2))
    'this account has 2 open requests, the most that the server allows (open_asks): decide or withdraw some first'
    """

    def __init__(self, most: int) -> None:
        super().__init__(_AFTER)
        words = "the most that the server allows (open_asks): decide or withdraw some first"
        self.args = (f"this account has {most} open requests, {words}",)


class OpenAsks:
    """Keeps which requests each account opened here since the server started, and which of them may be open still."""

    def __init__(self, app: App, most: int) -> None:
        self._app, self._most = app, most
        self._open = dict[str, OrderedDict[str, None]]()

    async def check(self, account: str) -> None:
        """Raise `TooManyOpen` where an account has no room for one request more.

        At the bound a few of its requests are looked at each time, in turn: those that are over make room.
        """
        kept = self._open.get(account, OrderedDict[str, None]())
        if len(kept) < self._most:
            return
        for id in [*islice(kept, _LOOKS)]:
            rows = await self._app.journal.runs(Query(run=id))
            if id in kept and rows and rows[0].status not in ENDED:
                kept.move_to_end(id)
            else:
                kept.pop(id, None)
        if len(kept) >= self._most:
            raise TooManyOpen(self._most)

    def opened(self, account: str, id: str) -> None:
        """Note a request that was opened."""
        self._open.setdefault(account, OrderedDict())[id] = None
