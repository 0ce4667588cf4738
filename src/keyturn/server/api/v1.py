"""Put the API together: its routes, what they share, and one OpenAPI made of the structs that go over the wire."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.types import ASGIApp

from ..._version import __version__
from ...wire.responses import Failure
from ..contained import ContainedRequests
from ..places import StreamPlaces
from . import agui, asks, decisions, grants, health, people, policies, records, requests, run_events, runs
from .health import Measured, Metrics
from .once import Answers
from .refusing import answer_refusals
from .routes import SCHEMA, Route

SUBJECTS = (health, runs, run_events, requests, decisions, asks, agui, grants, people, policies, records)


def api_of(shared: object) -> ASGIApp:
    """Return the API of an app, to be mounted under /v1; it shares what counts people with the pages."""
    api = FastAPI(
        title="Keyturn",
        version=__version__,
        summary="Runs of agents whose calls wait for people, and the people who decide.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    api.add_middleware(ContainedRequests)
    for name in ("app", "settings", "live", "limits", "turns", "readers", "open_asks"):
        setattr(api.state, name, getattr(shared, name))
    api.state.answers = Answers()
    api.state.places = StreamPlaces()
    api.state.metrics = Metrics()
    for subject in SUBJECTS:
        api.include_router(subject.routes.router)
    answer_refusals(api)
    _describe(api)
    return Measured(api, api.state.metrics)


def table() -> list[Route]:
    """Return every route of the API."""
    return [route for subject in SUBJECTS for route in subject.routes.table]


def _describe(api: FastAPI) -> None:
    """Have the OpenAPI name the structs, and say how one shows who one is."""
    made = api.openapi
    structs = {kind for route in table() for kind in (route.body, route.answer) if kind is not None}

    def described() -> dict[str, Any]:
        told = made()
        _, schemas = msgspec.json.schema_components([*structs, Failure], ref_template=SCHEMA)
        told["components"] = {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": _TOKEN}},
        }
        return told

    api.openapi = described


_TOKEN = "A token that `keyturn users token`, or a person's page, issued: for read, decide, people, run or ask."
