"""Say whether the server lives and can work, and count what it does, for machines that look after it.

Health tells strangers no more than yes or no; metrics take a token. Labels of metrics are the patterns of routes, never
what somebody asked for.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...application.workers import oldest_due_seconds
from ...journal.rows import COUNTED_FROM, Period, Query
from .routes import ApiContext, Routes, answer

routes = Routes("health")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Health(msgspec.Struct, frozen=True):
    """Says whether all is well."""

    ok: bool


class Metrics:
    """Counts what a server does, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "keyturn_http_requests", "Requests answered.", ("route", "method", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "keyturn_http_seconds", "Time to the first byte of an answer.", ("route",), buckets=_BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self.streams = Gauge("keyturn_open_streams", "Streams that are open.", registry=self.registry)
        self.busy = Gauge("keyturn_runs_moved", "Runs that this process moves.", registry=self.registry)
        self.well = Gauge("keyturn_worker_well", "1 while the worker can work.", registry=self.registry)
        self.oldest_due = Gauge(
            "keyturn_oldest_due_seconds", "For how long a run has been due that no worker moves.",
            registry=self.registry,
        )  # fmt: skip
        self.deaf = Counter(
            "keyturn_engine_deaf", "Runs that this process moved itself, since its engine did not hand them over.",
            registry=self.registry,
        )  # fmt: skip
        self.deaf_before = 0
        self.backlog = Gauge("keyturn_engine_backlog", "Wakes that the engine holds.", registry=self.registry)
        self.aside = Gauge(
            "keyturn_runs_set_aside", "Runs that ended each worker that took them up; a person resumes them.",
            registry=self.registry,
        )  # fmt: skip
        self.ended = Gauge(
            "keyturn_requests_ended", "Requests by how they ended, since counting began.", ("how",),
            registry=self.registry,
        )  # fmt: skip


class Measured:
    """Wraps an ASGI app and counts each request by the pattern of its route."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and count it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        begun = time.monotonic()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                route: Any = scope.get("route")
                path = getattr(route, "path", "none")
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._metrics.requests.labels(path, method, str(message["status"])).inc()
                self._metrics.seconds.labels(path).observe(time.monotonic() - begun)
            await send(message)

        return await self._app(scope, receive, sent)


_METHODS = ("GET", "HEAD", "OPTIONS", "POST")


@routes.add("GET", "/health/live", gives=Health)
async def get_live() -> Any:
    """Say that the server answers."""
    return answer(Health(True))


@routes.add("GET", "/health/ready", gives=Health, errors=(503,))
async def get_ready(request: Request) -> Any:
    """Say whether the server can work: whether its store answers, and its worker can work on it."""
    app: Any = request.app.state.app
    well = await app.check_health() is None
    return answer(Health(well), 200 if well else 503)


@routes.add("GET", "/metrics", scope="read", media="text/plain")
async def get_metrics(here: ApiContext) -> Any:
    """Return what is counted, for Prometheus."""
    here.visibility.must_see_all()
    metrics: Metrics = here.request.app.state.metrics
    metrics.streams.set(here.request.app.state.places.taken)
    metrics.busy.set(here.app.busy)
    metrics.well.set(here.app.trouble is None)
    metrics.oldest_due.set(await oldest_due_seconds(here.app.journal))
    metrics.deaf.inc(here.app.engine_deaf - metrics.deaf_before)
    metrics.deaf_before = here.app.engine_deaf
    metrics.backlog.set(await here.app.engine_backlog())
    metrics.aside.set(len(await here.app.journal.runs(Query(state="set_aside", limit=1_000))))
    counts = dict[str, int]()
    for each in await here.app.journal.tallies(Period()):
        if each.what != COUNTED_FROM:
            counts[each.what] = counts.get(each.what, 0) + each.count
    for how, count in counts.items():
        metrics.ended.labels(how).set(count)
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
