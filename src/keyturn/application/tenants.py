"""Many tenants of one journal, served by one worker: each tenant has an app of its own, on its own view of the store.

Nothing of one tenant is reached from another's app: its people, sessions, policies and contexts are those of that app.
What they share are the slots of the worker, and they take turns at them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from threading import RLock
from typing import Any

from ..core.errors import UserError
from ..core.settable import WHOLE, Rule, fixed, own_of
from ..engine.mover import Mover
from ..engine.tenant_worker import TenantWorker
from ..fleet import Engine
from ..inbox.restored import settle_whole
from ..journal import opened
from ..journal.base import Store
from ..journal.optional import FleetLimits, ServesTenants
from ..support.daemon_threads import DaemonThreads
from ..support.user_code import contained, run_callback
from .app import App
from .engines import OnEngine
from .settings import APP_RULES, LIMIT, fleet_limit
from .workers import set_of, why_down

log = logging.getLogger("keyturn.worker")

# So many apps are made at once by a worker, each in a thread.
_MAKING = 16
# After so many seconds the log says that a function has not made an app yet.
_LONG = 5.0
_LATE = "the function that makes apps has not returned the app of tenant %r within %d s; its runs wait"


def _of_one(slots: int, tenant_slots: int | None) -> int:
    """Return how many runs of one tenant are executed at once."""
    return min(tenant_slots or slots, slots)


def _limits(rule: Rule) -> Rule:
    """Make the rule of a limit that holds from then on, also for a worker that is at work."""

    def limited(tenants: Any, name: str, given: object) -> Any:
        made = rule(tenants, name, given)
        if (worker := own_of(tenants).get("_worker")) is not None:
            limits = {"slots": tenants.slots, "tenant_slots": tenants.tenant_slots, name: made}
            worker.limit(limits["slots"], _of_one(**limits))
        return made

    return limited


def _held(rule: Rule) -> Rule:
    """Make the rule of how runs are held, which holds from then on, also for a worker that is at work."""

    def held(tenants: Any, name: str, given: object) -> Any:
        made = rule(tenants, name, given)
        if (worker := own_of(tenants).get("_worker")) is not None:
            set_of(worker, name, made)
        for app in own_of(tenants).get("_apps", {}).values():
            setattr(app, name, made)
        return made

    return held


TENANTS_RULES: dict[str, Rule] = {
    "journal": fixed("tenants have one journal as long as they live: make another Tenants"),
    "slots": _limits(WHOLE),
    "tenant_slots": _limits(LIMIT),
    "fleet_slots": fleet_limit,
    "fleet_tenant_slots": fleet_limit,
    "grace": _held(APP_RULES["grace"]),
    "lease": _held(APP_RULES["lease"]),
}


class Tenants(OnEngine):
    """Serves the tenants of a journal: `make` returns the app of a tenant, on `journal.of(tenant)`, or None for none.

    `slots` is how many runs a worker executes at once, and `tenant_slots` how many of one tenant; `fleet_slots` and
    `fleet_tenant_slots` are the same for all workers of the journal together. `engine` carries wakes between the
    processes of the same program, as that of an app does; the apps of all tenants use it.

    >>> from keyturn import Agent, App, MemoryJournal
    >>> from keyturn.testing import ScriptedModel
    >>> journal, desk = MemoryJournal(), Agent(name="desk", model=ScriptedModel(["done"]))
    >>> tenants = Tenants(journal, lambda name: App([desk], journal.of(name)), tenant_slots=20)
    >>> tenants.app("acme").journal.tenant
    'acme'
    """

    journal: Any
    #: How many runs a worker executes at once.
    slots: int
    #: How many of one tenant; None for as many as it has slots.
    tenant_slots: int | None
    #: How many runs all workers execute at once, and how many of one tenant; None for as many as they have slots.
    fleet_slots: int | None
    fleet_tenant_slots: int | None
    #: How many seconds what was begun may take when the worker is stopped.
    grace: float
    #: For how many seconds a worker holds a run at a time.
    lease: float
    _rules = TENANTS_RULES
    _of_tenants = True

    def __init__(
        self,
        journal: Store | str,
        make: Callable[[str], App | None],
        *,
        slots: int = 100,
        tenant_slots: int | None = None,
        fleet_slots: int | None = None,
        fleet_tenant_slots: int | None = None,
        grace: float = 30.0,
        lease: float = 60.0,
        engine: Engine | str | None = None,
    ) -> None:
        self.journal = opened(journal) if isinstance(journal, str) else journal
        if not isinstance(self.journal, ServesTenants):
            raise UserError("this journal does not list its tenants: use memory://, SQLite or PostgreSQL")
        self._make, self.engine = make, engine
        self.slots, self.tenant_slots = slots, tenant_slots
        self.fleet_slots, self.fleet_tenant_slots = fleet_slots, fleet_tenant_slots
        self.grace, self.lease = grace, lease
        self._apps = dict[str, App]()
        self._open: AsyncExitStack | None = None
        self._worker: TenantWorker | None = None
        self._stops = 0
        self._making = dict[str, RLock]()
        self._threads = DaemonThreads(_MAKING)

    def app(self, tenant: str) -> App:
        """Return the app of a tenant, by which its runs are started and its requests decided; it is made once."""
        if tenant not in self._apps:
            with self._making.setdefault(tenant, RLock()):
                if tenant not in self._apps:
                    self._apps[tenant] = self._made(tenant)
        return self._apps[tenant]

    def _made(self, tenant: str) -> App:
        app: object = run_callback(self._make, tenant)
        if app is None:
            raise UserError(f"tenant {tenant!r} is not served here")
        if not isinstance(app, App):
            raise UserError(f"the function that makes apps must return an App or None, not a {type(app).__name__}")
        if getattr(app.journal, "tenant", None) != tenant or self._is_other(app.journal):
            raise UserError(f"the app of tenant {tenant!r} must be on its journal: App(..., journal.of(tenant))")
        app.embedded = False
        if self.engine is not None or app.engine is None:  # else it has one of its own, for workers of its own
            own_of(app)["_line"] = self._line
        return app

    def _is_other(self, journal: object) -> bool:
        """Return whether a journal is another store, as far as both have an id: its runs would never be executed."""
        mine, theirs = getattr(self.journal, "identity", ""), getattr(journal, "identity", "")
        return bool(mine and theirs) and mine != theirs

    @property
    def busy(self) -> int:
        """Return how many runs the worker of this process executes now."""
        return 0 if self._worker is None else self._worker.busy

    async def check_health(self, seconds: float = 4.0) -> str | None:
        """Return why the journal, which is asked, or this process's worker cannot work; None while they can."""
        error = None if self._worker is None else self._worker.error
        return await why_down(self.journal, seconds) or (None if error is None else str(error))

    def work(self, slots: int | None = None) -> Coroutine[Any, Any, None]:
        """Execute runs of all tenants until `stop` is called; one call at a time."""
        return self._work(slots, self._stops)

    async def _work(self, slots: int | None, stops: int) -> None:
        if stops != self._stops:  # it was stopped before it began
            return
        if self._worker is not None:
            raise UserError("a worker of these tenants is at work in this process: set slots, or stop() it first")
        self.slots = self.slots if slots is None else slots
        self._line.begin(self)
        try:
            await self._serve()
        finally:
            await self._line.end(self)

    async def _serve(self) -> None:
        async with AsyncExitStack() as self._open:
            self._worker = TenantWorker(
                self.journal,
                self._mover,
                slots=self.slots,
                tenant_slots=_of_one(self.slots, self.tenant_slots),
                grace=self.grace,
                lease_ms=int(self.lease * 1_000),
                settle=partial(settle_whole, self.journal),
                line=self._line,
            )
            try:
                await self._worker.run()
            finally:
                self._worker = None

    async def stop(self) -> None:
        """Let what was begun end, and `work` return; what takes longer than `grace` is in doubt."""
        self._stops += 1
        if self._worker is not None:
            self._worker.stop()

    async def _made_aside(self, tenant: str) -> App:
        """Make the app of a tenant in a thread: a function that blocks keeps no other tenant waiting."""
        if tenant in self._apps:
            return self._apps[tenant]
        late = asyncio.get_running_loop().call_later(_LONG, log.warning, _LATE, tenant, _LONG)
        try:
            return await self._threads.run(partial(self.app, tenant))
        finally:
            late.cancel()

    async def _mover(self, tenant: str, worker: str) -> Mover | None:
        """Open the app of a tenant, and return what moves its runs; a tenant that fails keeps no other waiting."""
        try:
            with contained:
                app = await self._made_aside(tenant)
                if self._open is not None:
                    await self._open.enter_async_context(app)
        except Exception as error:  # of the program that makes apps
            log.warning("runs of tenant %r are not executed here: %s", tenant, error)
            return None
        app.lease = self.lease
        mover = app.shared_mover(worker, _of_one(self.slots, self.tenant_slots))
        mover.limited_by = self._limits
        return mover

    def _limits(self) -> FleetLimits | None:
        limits = FleetLimits(self.fleet_tenant_slots, self.fleet_slots)
        return None if limits == FleetLimits() else limits
