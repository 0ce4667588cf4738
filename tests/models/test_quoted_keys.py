"""A key that an error of a provider, of a proxy or of an HTTP library quotes stands in no record and in no log."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from keyturn import Agent, App, FallbackModel, ModelSettings
from keyturn.models.base import Model
from keyturn.support.credentials import credentials_of
from keyturn.testing import ScriptedModel, function_call
from keyturn.testing.loopback.server import HttpReply, HttpRequest
from keyturn.tracing.export import BackendSpanExporter
from keyturn.tracing.processor_interface import TracingExporter
from keyturn.tracing.processors import BatchTraceProcessor
from tests.models.test_crossing import MEMBERS

KEY = "live-5e1f0c9a7b"


def echo(request: HttpRequest) -> HttpReply:
    """Answer as a proxy that says with which headers it was asked."""
    return HttpReply.json({"error": {"message": f"refused: {dict(request.headers)} {request.query}"}}, status=401)


async def recorded(agent: Agent[Any], *more: Agent[Any]) -> str:
    """What an app has of a run of an agent: its lines, and its row."""
    async with App([agent, *more], "memory://") as app:
        run = await app.start(agent.name, "go")
        row = await run.wait(30)
        lines = b"".join(await app.journal.read(run.id)).decode()
        assert "AuthenticationError" in lines or "ClientError" in lines or "LocalProtocolError" in lines, lines
        return f"{row} {lines}"


def quick(model: Model) -> Agent[Any]:
    return Agent("desk", model=model, model_settings=ModelSettings(retry=0))


async def test_a_key_that_is_quoted_by_an_error_is_in_no_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    told: dict[str, str] = {}
    for name, (server, made, model) in MEMBERS.items():
        async with server(echo) as proxy:
            echoed = made(model, api_key=KEY, base_url=proxy.base_url)
            told[f"{name}, echoed"] = await recorded(quick(echoed))
            inner = quick(echoed).as_tool("ask_inner", "Ask.")
            outer = ScriptedModel([function_call("ask_inner", {"input": "go"}), "Done."])
            async with App([Agent("outer", model=outer, tools=[inner])], "memory://") as app:
                run = await app.start("outer", "go")
                await run.wait(30)
                told[f"{name}, below another"] = b"".join(await app.journal.read(run.id)).decode()
            if "google" not in name:  # whose client takes the end of a line away
                line = made(model, api_key=f"{KEY}\n", base_url=proxy.base_url)
                told[f"{name}, with the end of its line"] = await recorded(quick(line))
                await line.close()
            await echoed.close()
    assert {name for name, text in told.items() if KEY in text} == set()
    assert KEY not in "\n".join(record.getMessage() + (record.exc_text or "") for record in caplog.records)


async def test_models_that_failed_before_quote_no_key_either() -> None:
    (server, made, model), (second, other, name) = MEMBERS["openai-chat"], MEMBERS["anthropic"]
    async with server(echo) as proxy, second(echo) as last:
        models = made(model, api_key=KEY, base_url=proxy.base_url), other(name, api_key="k" * 9, base_url=last.base_url)
        lines = await recorded(quick(FallbackModel(*models, hop=lambda _error: True)))
        for each in models:
            await each.close()
    assert "failed before" in lines
    assert KEY not in lines


def test_credentials_are_read_from_whatever_request_an_error_carries() -> None:
    headers = {"Authorization": f"Bearer {KEY}", "X-Api-Key": "short", "Accept": "text/plain"}
    about = SimpleNamespace(headers=headers, url=f"https://user:{KEY}-url@x.example/?key={KEY}-query&page=2")

    class Refused(Exception):
        request = about

    class Unset(Exception):
        @property
        def request(self) -> Any:
            raise RuntimeError("no request was set")

    error = Unset()
    error.__cause__ = Refused()
    assert credentials_of(error) == {f"Bearer {KEY}", KEY, f"{KEY}-url", f"{KEY}-query"}


def test_a_span_that_cannot_be_exported_quotes_no_key(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    assert BackendSpanExporter().api_key == KEY

    class Refused(Exception):
        request = SimpleNamespace(headers={"Authorization": f"Bearer {KEY}"}, url="https://spans.example/")

    class Exporter(TracingExporter):
        def export(self, items: Any) -> None:
            raise Refused(f"Illegal header value b'Bearer {KEY}'")

    processor = BatchTraceProcessor(Exporter())
    processor.on_trace_start(cast("Any", SimpleNamespace(export=dict)))
    processor.force_flush()
    processor.shutdown()
    assert "Illegal header value b[redacted]" in caplog.text
    assert KEY not in caplog.text
