"""Trace processors: they hear of every run, plain and streamed, of nothing sensitive unasked, and harm nobody."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from keyturn import (
    Agent,
    RunConfig,
    Runner,
    Span,
    Trace,
    TracingProcessor,
    UserError,
    add_trace_processor,
    custom_span,
    enable_verbose_stdout_logging,
    flush_traces,
    function_span,
    function_tool,
    get_current_span,
    set_trace_processors,
    set_tracing_disabled,
    set_tracing_export_api_key,
    trace,
)
from keyturn.testing import ScriptedModel, function_call
from keyturn.tracing.processors import BackendSpanExporter, BatchTraceProcessor, default_processor
from keyturn.tracing.verbose import disable_verbose_stdout_logging


class Listener(TracingProcessor):
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.spans: list[Span[Any]] = []
        self.traces: list[str] = []

    def on_trace_start(self, trace: Trace) -> None:
        self.heard.append(f"trace {trace.name}")
        self.traces.append(trace.trace_id)

    def on_trace_end(self, trace: Trace) -> None:
        self.heard.append(f"end {trace.name}")

    def on_span_start(self, span: Span[Any]) -> None:
        assert span.ended_at is None

    def on_span_end(self, span: Span[Any]) -> None:
        assert span.ended_at
        self.heard.append(span.span_data.type)
        self.spans.append(span)

    def shutdown(self) -> None:
        self.heard.append("shutdown")

    def force_flush(self) -> None:
        self.heard.append("flush")

    def of(self, kind: str) -> list[Any]:
        return [span.span_data for span in self.spans if span.span_data.type == kind]


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    add_trace_processor(made)
    yield made
    set_trace_processors([])


def desk(**options: Any) -> Agent[Any]:
    @function_tool(**options)
    def pay(to: str) -> str:
        with function_span("bank", input=to) as span:
            span.span_data.output = "sent"
        return f"paid {to}"

    return Agent("desk", model=ScriptedModel([[function_call("pay", {"to": "ann"})], "Done."]), tools=[pay])


async def run(agent: Agent[Any], given: Any, streamed: bool, **config: Any) -> Any:
    settings = RunConfig(workflow_name="Refunds", **config)
    if not streamed:
        return await Runner.run(agent, given, run_config=settings)
    result = Runner.run_streamed(agent, given, run_config=settings)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_a_run_is_told_as_the_spans_that_programs_know(listener: Listener, streamed: bool) -> None:
    await run(desk(), "Pay Ann.", streamed)
    assert listener.heard == [
        *["trace Refunds", "generation", "function", "function", "generation", "agent", "end Refunds"]
    ]
    bank, paid, agent = listener.spans[1], listener.spans[2], listener.spans[4]
    assert (bank.span_data.name, bank.parent_id) == ("bank", paid.span_id)
    assert (paid.parent_id, agent.parent_id) == (agent.span_id, None)
    assert {span.trace_id for span in listener.spans} == set(listener.traces)
    assert paid.export()["span_data"] == {
        "type": "function",
        "name": "pay",
        "input": None,
        "output": None,
        "mcp_data": None,
    }


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_what_is_sensitive_is_told_where_the_run_says_so(listener: Listener, streamed: bool) -> None:
    await run(desk(), "Pay Ann.", streamed, trace_include_sensitive_data=True)
    data = next(each for each in listener.of("function") if each.name == "pay")
    assert (json.loads(data.input), data.output) == ({"to": "ann"}, "paid ann")
    assert listener.of("generation")[0].input[0]["role"] == "user"


async def test_a_call_that_waits_is_no_function_and_its_run_goes_on_in_its_trace(listener: Listener) -> None:
    agent = desk(needs_approval=True)
    paused = await run(agent, "Pay Ann.", streamed=False)
    assert not listener.of("function")
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    await run(agent, state, streamed=False)
    assert len(listener.of("function")) == 2
    assert len({span.trace_id for span in listener.spans}) == 1
    assert [each for each in listener.heard if each.startswith(("trace", "end"))] == ["trace Refunds", "end Refunds"]


async def test_a_processor_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Listener):
        def on_span_start(self, span: Span[Any]) -> None:
            raise RuntimeError("broken")

    add_trace_processor(Broken())
    try:
        result = await run(desk(), "Pay Ann.", streamed=False)
    finally:
        set_trace_processors([])
    assert result.final_output == "Done."
    assert "on_span_start of a trace processor raised" in caplog.text


async def test_beside_opentelemetry_both_tell_of_the_same_spans(listener: Listener) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    await run(desk(), "Pay Ann.", streamed=False, tracing=provider)
    theirs = {f"span_{span.context.span_id:0>24x}" for span in exporter.get_finished_spans()}
    ours = {span.span_id for span in listener.spans}
    assert len(ours) == 5
    assert ours < theirs
    parents = {span.parent.span_id for span in exporter.get_finished_spans() if span.parent}
    assert len(parents) == 3


async def test_an_error_is_told_by_its_class(listener: Listener) -> None:
    @function_tool
    def pay() -> str:
        raise LookupError("account 17")

    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {})], "Sorry."]), tools=[pay])
    await run(agent, "Pay.", streamed=False)
    failed = [span.error for span in listener.spans if span.error]
    assert failed
    assert all("account 17" not in str(error) for error in failed)
    assert failed[0] is not None
    assert failed[0]["message"] == "LookupError"


async def test_what_is_switched_off_is_not_told(listener: Listener) -> None:
    await run(desk(), "Pay Ann.", streamed=False, tracing_disabled=True)
    with trace("Quiet", disabled=True), custom_span("look"):
        pass
    set_tracing_disabled(True)
    try:
        await run(desk(), "Pay Ann.", streamed=False)
    finally:
        set_tracing_disabled(False)
    assert listener.heard == []


def test_spans_and_traces_without_a_with(listener: Listener) -> None:
    around = trace("Chat", group_id="thread 7", metadata={"plan": "pro"})
    around.start(mark_as_current=True)
    span = function_span("look up", span_id="span_" + "0b" * 12, parent=around)
    span.start(mark_as_current=True)
    assert get_current_span() is span
    span.set_error({"message": "no such order", "data": {"order": 17}})
    span.finish(reset_current=True)
    around.finish(reset_current=True)
    assert get_current_span() is None
    assert listener.heard == ["trace Chat", "function", "end Chat"]
    assert listener.spans == [span]
    told = span.export() or {}
    assert (told["id"], told["parent_id"], told["error"]["message"]) == ("span_" + "0b" * 12, None, "no such order")
    assert around.export()["metadata"] == {"plan": "pro"}


def test_bad_input_is_refused_at_the_call() -> None:
    with pytest.raises(UserError, match="a trace processor needs force_flush"):
        add_trace_processor(object())  # type: ignore[arg-type]  # what an untyped program may pass
    with pytest.raises(UserError, match="parent of a span is a Trace or a Span, not dict"):
        function_span("x", parent={})  # type: ignore[arg-type]  # what an untyped program may pass
    with pytest.raises(UserError, match="a text that is not empty"):
        set_tracing_export_api_key("")


class Ingest(HTTPServer):
    """Takes batches, and answers each with the next status."""

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.bodies, self.keys = list(statuses), list[Any](), list[Any]()
        super().__init__(("127.0.0.1", 0), _Takes)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/traces"


class _Takes(BaseHTTPRequestHandler):
    server: Ingest

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.keys.append(self.headers["Authorization"])
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


async def test_traces_are_sent_in_batches_and_again_where_that_may_help(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Ingest(503)
    waited: list[float] = []
    exporter = BackendSpanExporter("sk-test", endpoint=server.url)
    monkeypatch.setattr(exporter, "_wait", waited.append)
    add_trace_processor(BatchTraceProcessor(exporter))
    try:
        await run(desk(), "Pay Ann.", streamed=False)
        flush_traces()
    finally:
        set_trace_processors([])
        server.shutdown()
        server.server_close()
    assert len(waited) == 1
    assert server.keys == ["Bearer sk-test"] * 2
    assert server.bodies[0] == server.bodies[1]
    kinds = [each.get("workflow_name") or each["span_data"]["type"] for each in server.bodies[0]["data"]]
    assert kinds == ["Refunds", "generation", "function", "function", "generation", "agent"]


def test_what_the_service_refuses_is_logged_and_not_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    server = Ingest(400)
    BackendSpanExporter("sk-test", endpoint=server.url).export([Trace("Refunds")])
    server.shutdown()
    server.server_close()
    assert len(server.bodies) == 1
    assert "refused a batch with status 400" in caplog.text


def test_without_a_key_nothing_is_sent(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    BackendSpanExporter(endpoint="http://127.0.0.1:1/").export([Trace("Refunds")])
    assert "no OPENAI_API_KEY is set" in caplog.text


def test_an_exporter_that_is_too_slow_loses_what_is_too_much(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[Any] = []

    class Kept(BackendSpanExporter):
        def export(self, items: Any) -> None:
            sent.extend(items)

    batches = BatchTraceProcessor(Kept("sk-test"), max_queue_size=2, schedule_delay=600, export_trigger_ratio=1)
    batches._thread = threading.current_thread()  # nobody empties the queue but the flush
    for number in range(5):
        batches.on_trace_start(Trace(f"t{number}"))
    batches.force_flush()
    assert [each.name for each in sent] == ["t0", "t1"]
    assert "3 spans were lost" in caplog.text


def test_a_key_for_traces_switches_their_export_on_once() -> None:
    try:
        set_tracing_export_api_key("sk-one")
        set_tracing_export_api_key("sk-two")
        from keyturn.tracing.processing import _Processors

        assert _Processors.heard == (default_processor(),)
    finally:
        set_trace_processors([])


async def test_verbose_logging_tells_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    enable_verbose_stdout_logging()
    enable_verbose_stdout_logging()
    try:
        await run(desk(), "Pay Ann.", streamed=False)
    finally:
        disable_verbose_stdout_logging()
    told = capsys.readouterr().out
    assert told.count("execute_tool pay begins") == 1
    assert "trace Refunds ends" in told
    assert "paid ann" not in told, "results are told only where a run says so"
    assert logging.getLogger("keyturn").level == logging.NOTSET
