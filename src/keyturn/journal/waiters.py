"""Wake those in this process who wait for a journal: futures of any event loop, from any thread.

A ring without a listener is nothing. Who waits first says so and then looks, so that no ring is missed in between. How
other processes are rung is the member's affair.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

from .due_feed import DueFeed

# Under this name wait those who want to know of any run that is due. No run is called like that.
DUE = "\x00due"
# Under this and a run's name wait those who hold it, for what others append.
SAID = "\x00said:"
# Under this name waits who delivers notices.
NOTICES = "\x00notices"
# Under this one who wants to know of anything that is written.
ANY = "\x00any"
# Under this tenant's name, which no tenant has, and `DUE` wait those who want to know of a due run of any tenant.
EVERYBODY = "\x00tenants"
# However a ring from another process got lost, who waits looks again after so many seconds.
AT_MOST = 15.0
# The same where no process can ring another, since each transaction has another session of the database.
POOLED_AT_MOST = 1.0


class Waiters:
    """Wakes waiters, by tenant and run; `due` names the runs that commits of this process made due.

    >>> async def rung():
    ...     bell = Waiters()
    ...     with bell.heard("default", "run") as ring:
    ...         bell.ring([("default", "run")])
    ...         return await waited(ring, 5.0)
    >>> asyncio.run(rung())
    True
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], list[asyncio.Event]] = {}
        self._loops: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()
        self.due = DueFeed()

    @contextmanager
    def heard(self, tenant: str, name: str) -> Generator[asyncio.Event]:
        """Return an event that is set by each ring of that name."""
        event, key = asyncio.Event(), (tenant, name)
        with self._lock:
            self._waiting.setdefault(key, []).append(event)
            self._loops[event] = asyncio.get_running_loop()
        try:
            yield event
        finally:
            with self._lock:
                del self._loops[event]
                self._waiting[key].remove(event)
                if not self._waiting[key]:
                    del self._waiting[key]

    def ring(self, names: Iterable[tuple[str, str]]) -> None:
        """Wake whoever waits for any of these, or for anything of their tenants."""
        names = set(names)
        wanted = {*names}
        wanted |= {(tenant, ANY) for tenant, _name in wanted}
        wanted |= {(EVERYBODY, DUE) for _tenant, name in names if name == DUE}
        with self._lock:
            woken = [(event, self._loops[event]) for name in wanted for event in self._waiting.get(name, ())]
        self._wake(woken)

    def ring_all(self) -> None:
        """Wake everybody, where it is not known which run changed."""
        with self._lock:
            woken = list(self._loops.items())
        self._wake(woken)

    def _wake(self, woken: list[tuple[asyncio.Event, asyncio.AbstractEventLoop]]) -> None:
        for event, loop in woken:
            with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(event.set)


async def waited(event: asyncio.Event, seconds: float) -> bool:
    """Wait for a ring or the timeout; return whether there was one."""
    try:
        async with asyncio.timeout(seconds):  # `wait_for` may swallow a cancellation that comes with the ring
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
