"""Connect to PostgreSQL, and listen for the commits of other processes (LISTEN/NOTIFY)."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from .waiters import Waiters

CHANNEL = "keyturn"
#: The first half of the keys of the locks by which workers show that they live.
PRESENT = 1_264_934_484
# A worker that cannot show within so many seconds that it lives begins without: its leases are waited for then.
_SHOWN_WITHIN = 3.0
# A server that vanished is given up: without these a connection waits for hours for an answer that never comes.
_ALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "30000"}


def connected(url: str, **options: Any) -> Any:
    """Connect, with the limits that the URL does not set itself; text is UTF-8 whatever the environment says."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(url)
    bounds = {name: value for name, value in ({"connect_timeout": "10"} | _ALIVE).items() if name not in given}
    return psycopg.connect(url, autocommit=True, client_encoding="utf8", **bounds, **options)


class PostgresListener:
    """Listens for the commits of other processes (LISTEN/NOTIFY), begun when somebody first waits.

    `own` are the database's processes that write for this one.
    """

    def __init__(self, url: str, bell: Waiters, own: set[int]) -> None:
        self._url = url
        self._bell = bell
        self._own = own
        self._ready, self._closed = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # The workers of this process that show by a lock of this connection that they live, and whether each does.
        self._present: dict[str, threading.Event] = {}

    @property
    def hears(self) -> bool:
        """Return whether nothing can be missed any more."""
        return self._ready.is_set()

    def begin(self) -> None:
        """Start listening; return when nothing can be missed any more."""
        if self._start():
            self._ready.wait(10)

    def _start(self) -> bool:
        with self._lock:
            if self._closed.is_set():
                return False
            if self._thread is None:
                self._thread = threading.Thread(target=self._listen, name="keyturn-postgres-listener", daemon=True)
                self._thread.start()
        return True

    def be_present(self, worker: str) -> bool:
        """Hold a lock for as long as this process lives; return whether it is held by now."""
        shown = self._present.setdefault(worker, threading.Event())
        if self._start() and shown.wait(_SHOWN_WITHIN):
            return True
        self.be_absent(worker)
        return False

    def be_absent(self, worker: str) -> None:
        """Hold it no more, soon."""
        self._present.pop(worker, None)

    def stop(self) -> None:
        """Stop listening, soon."""
        self._closed.set()
        self._ready.set()  # nobody waits for what will not come

    def close(self) -> None:
        """Stop listening, now."""
        self.stop()
        with self._lock:  # it may be beginning
            thread = self._thread
        if thread is not None:
            thread.join()

    def _listen(self) -> None:
        import psycopg

        while not self._closed.is_set():
            try:
                with connected(self._url) as db:
                    db.execute(f"LISTEN {CHANNEL}")
                    self._ready.set()
                    self._bell.ring_all()  # what was told while nobody heard
                    self._hear(db)
            except (psycopg.Error, UnicodeError):
                self._closed.wait(0.2)

    def _hear(self, db: Any) -> None:
        held = set[str]()
        while not self._closed.is_set():
            self._show(db, held)
            for told in db.notifies(timeout=0.2):
                if told.pid in self._own:  # whoever wrote here has rung here
                    continue
                name = _rung(told.payload)
                if name is not None:
                    self._bell.ring([name])
                else:
                    self._bell.ring_all()

    def _show(self, db: Any, held: set[str]) -> None:
        """Hold the locks of the workers of this process, which end with the connection at the latest.

        They are shared, as a connection that is lost here may hold them for a while at the server.
        """
        for worker, shown in [(name, shown) for name, shown in self._present.items() if name not in held]:
            db.execute(b"SELECT pg_advisory_lock_shared(%s, hashtext(%s))", (PRESENT, worker))
            held.add(worker)
            shown.set()
        for worker in held - self._present.keys():
            db.execute(b"SELECT pg_advisory_unlock_shared(%s, hashtext(%s))", (PRESENT, worker))
            held.discard(worker)


def _rung(payload: str) -> tuple[str, str] | None:
    """Return the tenant and run that a notice names; None for any other payload, which any user can send."""
    try:
        return msgspec.json.decode(payload, type=tuple[str, str])
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
