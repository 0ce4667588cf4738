"""The engine Temporal: a wake is a signal to a short workflow of the run, whose activity has the run moved.

The workflow holds ids and ends as soon as it has no wake left: nothing waits in Temporal, so that no history grows, no
old code has to be kept for what began under it, and a workflow that Temporal lost costs one wake. Its name stands for
its code: another workflow would have another name.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from hashlib import sha256
from typing import Self
from urllib.parse import urlsplit

from temporalio import activity, workflow
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.common import Priority, RetryPolicy, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker as TemporalWorker

from ..core.errors import UserError
from ..support.urls import opens_elsewhere
from .base import EngineHealth, EnginePlace, Moves, Wake

_ACTIVITY = "keyturn-advance"
_LONGEST = timedelta(hours=24)
_BEAT = 3.0  # how often an activity says that it lives, in seconds
_DEAD = timedelta(seconds=15)
_GRACE = timedelta(hours=1)  # nobody is waited for so long: the mover ends what it moves
_NOTHING_DELETED = (RPCStatusCode.NOT_FOUND, RPCStatusCode.UNIMPLEMENTED)  # none is kept, or the server deletes none
#: Of Temporal's five priorities, for its workflows and their activities.
_KEYS = (1, 3, 5)
_LONGEST_KEY = 64  # of Temporal's fairness keys, in bytes
#: The causes of a reconciler's wakes begin so: each is a workflow of its own, since that of the run may be lost.
_OWN = "due-"


@workflow.defn(name="keyturn-wakes", sandboxed=False)
class WakesWorkflow:
    """Has a run looked at once for each wake that it is sent, one after another."""

    def __init__(self) -> None:
        self._causes = deque[str]()

    @workflow.signal(name="due")
    def due(self, cause: str) -> None:
        """Add a wake; one that waits already is enough for both."""
        if cause not in self._causes:
            self._causes.append(cause)

    @workflow.run
    async def run(self, tenant: str, run: str) -> str:
        """Return what came of the last wake."""
        outcome = "nothing"
        await workflow.wait_condition(lambda: bool(self._causes))
        while self._causes:
            try:
                outcome = await workflow.execute_activity(
                    _ACTIVITY,
                    args=[tenant, run, self._causes[0]],
                    result_type=str,
                    start_to_close_timeout=_LONGEST,
                    heartbeat_timeout=_DEAD,
                    retry_policy=RetryPolicy(maximum_attempts=1),
                )
            except ActivityError:  # its process died: a reconciler has the run moved
                outcome = "lost"
            self._causes.popleft()
        return outcome


class TemporalEngine:
    """Carries wakes by a Temporal server: `temporal://host:7233/namespace`, with `?tls=1` where that is encrypted.

    Apps on one journal that have different agents get a `task_queue` each.

    >>> TemporalEngine("temporal://temporal.example:7233/prod?tls=1").task_queue
    'keyturn'
    """

    __slots__ = ("_address", "_client", "_key", "_leaving", "_namespace", "_tenant", "_tls", "task_queue")

    def __init__(self, url: str, *, task_queue: str = "keyturn", api_key: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "temporal" or not parts.hostname:
            raise UserError("the engine temporal needs its server: --engine-url temporal://host:7233/namespace")
        self._address = f"{parts.hostname}:{parts.port or 7233}"
        self._namespace = parts.path.strip("/") or "default"
        self._tls = _is_encrypted(parts.query)
        if api_key and not self._tls and opens_elsewhere(url):
            raise UserError(
                "an API key of Temporal is sent over TLS alone: --engine-url temporal://host:7233/namespace?tls=1"
            )
        self._key = api_key
        self.task_queue = task_queue
        self._client: Client | None = None
        self._tenant: str | None = None
        self._leaving = asyncio.Event()

    @classmethod
    def named(cls, journal: str, url: str) -> Self:
        """Return the engine of a URL; a journal has none by itself."""
        return cls(url, api_key=os.environ.get("KEYTURN_ENGINE_KEY"))

    @asynccontextmanager
    async def open(self, tenant: str | None) -> AsyncGenerator[None]:
        """Connect to the server."""
        self._tenant = tenant
        self._client = await Client.connect(
            self._address, namespace=self._namespace, tls=self._tls, api_key=self._key, lazy=False
        )
        try:
            yield
        finally:
            self._client = None

    async def work(self, moves: Moves) -> None:
        """Take activities, as many at once as the mover has slots, until stopped."""
        self._leaving.clear()

        @activity.defn(name=_ACTIVITY)
        async def advance(tenant: str, run: str, cause: str) -> str:
            return await _beating(moves, Wake(tenant, run, cause))

        # Without a cache of workflows none waits at a worker that died.
        worker = TemporalWorker(
            self._connected(),
            task_queue=self._queue(),
            workflows=[WakesWorkflow],
            activities=[advance],
            max_cached_workflows=0,
            max_concurrent_activities=moves.slots,
            graceful_shutdown_timeout=_GRACE,
        )
        async with worker:
            await self._leaving.wait()

    def stop(self) -> None:
        """Take no more activities."""
        self._leaving.set()

    async def wake(self, wakes: Sequence[Wake]) -> None:
        """Signal the workflow of each run, which begins by that where it is not at work."""
        client = self._connected()
        for each in wakes:
            await client.start_workflow(
                WakesWorkflow.run,
                args=[each.tenant, each.run],
                id=each.key if each.cause.startswith(_OWN) else f"{each.tenant}:{each.run}",
                task_queue=self._queue(),
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal="due",
                start_signal_args=[each.cause],
                priority=self._priority(each),
            )

    async def forget(self, tenant: str, run: str) -> None:
        """Delete the workflow of a run; those of its reconciler end with the retention of the namespace."""
        client = self._connected()
        request = DeleteWorkflowExecutionRequest(namespace=self._namespace)
        request.workflow_execution.workflow_id = f"{tenant}:{run}"
        try:
            await client.workflow_service.delete_workflow_execution(request)
        except RPCError as error:
            if error.status not in _NOTHING_DELETED:
                raise

    async def tidy(self, before: int) -> int:
        """Delete nothing: the retention of the namespace does."""
        return 0

    async def health(self) -> EngineHealth:
        """Return whether the server answers."""
        try:
            well = await self._connected().service_client.check_health()
        except RPCError as error:
            return EngineHealth(error=str(error.status.name))
        return EngineHealth(error=None if well else "the server is not healthy")

    async def place(self, tenant: str, run: str) -> EnginePlace | None:
        """Return the workflow of a run."""
        id = f"{tenant}:{run}"
        try:
            found = await self._connected().get_workflow_handle(id).describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise
        return EnginePlace(id, "" if found.status is None else found.status.name)

    def _queue(self) -> str:
        """Return the name of the task queue: of one tenant, or that of several."""
        return self.task_queue if self._tenant is None else f"{self.task_queue}:{self._tenant}"

    def _priority(self, wake: Wake) -> Priority:
        """Return how soon a wake is handed over; in a queue of several tenants each gets its share."""
        return Priority(_KEYS[wake.priority], _fairness_key(wake.tenant) if self._tenant is None else None)

    def _connected(self) -> Client:
        if self._client is None:
            raise ConnectionError("the engine temporal is not open")
        return self._client


def _fairness_key(tenant: str) -> str:
    """Return what a tenant's share is kept under: its name, or the digest of one that is too long for it."""
    fits = len(tenant.encode()) <= _LONGEST_KEY
    return tenant if fits else sha256(tenant.encode()).hexdigest()


def _is_encrypted(query: str) -> bool:
    """Return what the query of a URL says of TLS; what it misspells would be no TLS."""
    if query not in ("", "tls=0", "tls=1"):
        raise UserError(
            "the query of the URL of the engine temporal is ?tls=1, where its server is encrypted, or empty"
        )
    return query == "tls=1"


async def _beating(moves: Moves, wake: Wake) -> str:
    """Have a run moved, and say meanwhile that this process lives."""
    moving = asyncio.ensure_future(moves.move(wake))
    while not moving.done():
        await asyncio.wait({moving}, timeout=_BEAT)
        activity.heartbeat()
    return moving.result().outcome
