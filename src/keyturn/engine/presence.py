"""Notice that a worker's process died, and let others take up its runs at once, not once its leases have run out.

Nothing is trusted to this: whoever is taken for dead and lives is refused at its next line, as after a lease that ran
out. So it is taken for dead only after several looks, and not while all may be connecting anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from ..core.errors import KeyturnError
from ..journal.optional import Presence

log = logging.getLogger("keyturn.worker")

_EVERY = 1.0  # how often is looked, in seconds
_SOON = 0.75  # how soon again, once a worker is missed
_SURE = 1.4  # for how long a worker is missed until it is taken for dead
_STANDSTILL = 4.0  # after so long without a look, this process or the database stood still
_CONNECTING = 10.0  # and for so long others may be about to show themselves again


class HolderWatch:
    """Looks which holders of runs died."""

    def __init__(self, store: Presence, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._missed = dict[str, float]()
        self._looked, self._trusts_from = clock(), 0.0

    async def run(self) -> None:
        """Look for as long as the worker works."""
        while True:
            await asyncio.sleep(_SOON if self._missed else _EVERY)
            try:
                await self.look()
            except (KeyturnError, OSError) as error:  # then leases run out by themselves
                log.debug("which workers live cannot be read: %s", error)

    async def look(self) -> None:
        """Look once, and end the claims of those that are surely dead."""
        absent = await self._store.absent()
        now = self._clock()
        if now - self._looked > _STANDSTILL:
            self._missed.clear()
            self._trusts_from = now + _CONNECTING
        self._looked = now
        self._missed = {name: self._missed.get(name, now) for name in absent}
        for name, since in self._missed.items() if now >= self._trusts_from else ():
            if now - since >= _SURE:
                log.warning("the process of worker %s died; its runs are taken over", name)
                await self._store.end_claims(name)
