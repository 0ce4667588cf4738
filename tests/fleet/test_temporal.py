"""The suite of engines over Temporal's test server."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keyturn import App, UserError
from keyturn.fleet import Engine, engine_named
from keyturn.journal.base import Store
from keyturn.support.lazy import is_installed
from keyturn.testing import EngineSuite
from keyturn.testing.suites.engine_case import Shop
from keyturn.testing.suites.engine_tenants import working
from tests.table import each
from tests.waiting import until, until_status

from .temporal_server import lacks, temporal_server

needs = pytest.mark.skipif(not is_installed("temporalio"), reason="temporalio is not installed")


@needs
@pytest.mark.trial
class TestTemporalEngine(EngineSuite):
    @pytest.fixture(autouse=True)
    async def _server(self, tmp_path: Path) -> AsyncGenerator[None]:
        if missing := lacks():
            pytest.skip(missing)
        async with temporal_server(tmp_path) as self.url:
            yield

    def make_engine(self, store: Store) -> Engine | None:
        from keyturn.fleet.temporal import TemporalEngine

        return TemporalEngine(self.url)

    async def test_an_erased_run_leaves_nothing_in_the_engine(self) -> None:
        pytest.skip("Temporal's test server deletes no workflow; a server keeps one for the retention of its namespace")

    async def test_a_history_holds_ids_alone(self) -> None:
        """No argument, message or answer is in what Temporal keeps of a run."""
        agent = Shop().agent("argument-of-the-call")
        async with self.fleet(agent) as (starts, _):
            await _holds_ids_alone(starts, "default")
        async with self.tenants(lambda _name: agent, "acme") as (apps, works), working(works):
            await _holds_ids_alone(apps["acme"], "acme")


async def _holds_ids_alone(app: App, tenant: str) -> None:
    run = await app.start("argument-of-the-call", "message-of-a-user", requester="person-ann")
    await until_status(app, run.id, "waiting")
    engine: Any = app.engine
    await until(lambda: _is_over(engine, tenant, run.id))
    history = await engine._client.get_workflow_handle(f"{tenant}:{run.id}").fetch_history()
    kept = history.to_json().translate({ord("\n"): None})
    words = "".join(b64decode(data).decode(errors="replace") for data in re.findall(r'"data": *"([^"]+)"', kept))
    assert run.id in words
    assert not [said for said in ("argument", "message", "person") if said in kept + words]
    assert "pay" not in words


async def _is_over(engine: Any, tenant: str, run: str) -> bool:
    place = await engine.place(tenant, run)
    return place is not None and place.state == "COMPLETED"


@each("url", ["", "postgresql://db/keyturn", "temporal:7233"])
def test_a_server_is_named_by_its_url(url: str) -> None:
    pytest.importorskip("temporalio")
    with pytest.raises(UserError, match="--engine-url temporal://"):
        engine_named("temporal", "postgresql://db/keyturn", url)


@needs
@each("status, raises", [("NOT_FOUND", False), ("UNIMPLEMENTED", False), ("UNAVAILABLE", True), ("INTERNAL", True)])
async def test_a_workflow_that_could_not_be_deleted_is_an_error(status: str, raises: bool) -> None:
    """Its run was erased: a server that keeps no workflow, or deletes none, is none."""
    from temporalio.service import RPCError, RPCStatusCode

    from keyturn.fleet.temporal import TemporalEngine

    async def refuse(_request: object) -> None:
        raise RPCError("no", RPCStatusCode[status], b"")

    engine: Any = TemporalEngine("temporal://127.0.0.1:7233/default")
    engine._client = SimpleNamespace(workflow_service=SimpleNamespace(delete_workflow_execution=refuse))
    with pytest.raises(RPCError) if raises else nullcontext():
        await engine.forget("default", "run")


@needs
@each("query", ["", "?tls=0", "?tls=true", "?TLS=1", "?tls=1&x=2"])
def test_an_api_key_is_sent_over_tls_alone(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYTURN_ENGINE_KEY", "key")
    with pytest.raises(UserError, match=r"\?tls=1"):
        engine_named("temporal", "postgresql://db/keyturn", f"temporal://temporal.example:7233/prod{query}")
    assert engine_named("temporal", "postgresql://db/keyturn", "temporal://temporal.example:7233/prod?tls=1")
    assert engine_named("temporal", "postgresql://db/keyturn", "temporal://127.0.0.1:7233/prod")
