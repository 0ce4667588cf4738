"""Trace processors ready made: spans sent in batches, to OpenAI's trace view or to the terminal.

None of them is at work until somebody asks for it, by `add_trace_processor` or `set_tracing_export_api_key`.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, TextIO

from ..core.settable import Sealed
from ..support.credentials import traceback_without
from ..support.user_code import run_callback
from .export import BackendSpanExporter
from .processing import add_trace_processor, is_heard
from .processor_interface import TracingExporter, TracingProcessor
from .spans import Span
from .trace import Trace

_LOG = logging.getLogger("keyturn.tracing")
_AT_EXIT = 10.0  # seconds that the end of a process waits for the last batch

__all__ = [
    "BackendSpanExporter",
    "BatchTraceProcessor",
    "ConsoleSpanExporter",
    "default_exporter",
    "default_processor",
    "set_tracing_export_api_key",
]


class ConsoleSpanExporter(TracingExporter, Sealed):
    """Writes traces and spans to the terminal, one line each.

    >>> ConsoleSpanExporter(sys.stdout).export([Trace("Refunds", "trace_" + "0a" * 16)])
    trace Refunds (trace_0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a)
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def export(self, items: Sequence[Trace | Span[Any]]) -> None:
        """Write them."""
        for item in items:
            if isinstance(item, Trace):
                line = f"trace {item.name} ({item.trace_id})"
            else:
                line = f"span {item.span_data.span_name} {item.export()}"
            print(line, file=self._stream or sys.stdout)


class BatchTraceProcessor(TracingProcessor, Sealed):
    """Gives an exporter traces as they begin and spans as they end, several at once, from a thread of its own.

    Where the exporter is slower than the runs, at most `max_queue_size` wait and further ones are lost, which is
    logged.

    >>> batches = BatchTraceProcessor(ConsoleSpanExporter())
    >>> batches.on_trace_start(Trace("Refunds", "trace_" + "0a" * 16))
    >>> batches.force_flush()
    trace Refunds (trace_0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a)
    >>> batches.shutdown()
    """

    def __init__(
        self,
        exporter: TracingExporter,
        max_queue_size: int = 8192,
        max_batch_size: int = 128,
        schedule_delay: float = 5.0,
        export_trigger_ratio: float = 0.7,
    ) -> None:
        self._exporter = exporter
        self._most, self._batch = max_queue_size, max_batch_size
        self._delay = schedule_delay
        self._trigger = max(1, int(max_queue_size * export_trigger_ratio))
        self._queue: deque[Trace | Span[Any]] = deque()
        self._lost = 0
        self._changed = threading.Condition()
        self._exporting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._over = False

    def on_trace_start(self, trace: Trace) -> None:
        """A trace is sent as it begins: backends want it before its spans."""
        self._add(trace)

    def on_trace_end(self, trace: Trace) -> None:
        """It was sent when it began."""

    def on_span_start(self, span: Span[Any]) -> None:
        """It is sent when it ends."""

    def on_span_end(self, span: Span[Any]) -> None:
        """A span is sent whole."""
        self._add(span)

    def force_flush(self) -> None:
        """Send all there is, in this thread, and return when it is sent."""
        self._drain()

    def shutdown(self) -> None:
        """Send what is left, for ten seconds at most, and take nothing more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        last = threading.Thread(target=self._drain, name="keyturn-traces-last", daemon=True)
        last.start()
        last.join(_AT_EXIT)

    def _add(self, item: Trace | Span[Any]) -> None:
        with self._changed:
            if self._over:
                return
            if len(self._queue) >= self._most:
                self._lost += 1
                return
            self._queue.append(item)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="keyturn-traces", daemon=True)
                self._thread.start()
            elif len(self._queue) >= self._trigger:
                self._changed.notify_all()

    def _work(self) -> None:
        until = time.monotonic() + self._delay
        while True:
            with self._changed:
                if not self._over and len(self._queue) < self._trigger:
                    self._changed.wait(max(0.0, until - time.monotonic()))
                if self._over:
                    return
            if len(self._queue) >= self._trigger or time.monotonic() >= until:
                self._drain()
                until = time.monotonic() + self._delay

    def _drain(self) -> None:
        with self._exporting:
            while batch := self._taken():
                try:
                    run_callback(self._exporter.export, batch)
                except Exception as error:
                    _LOG.warning("%d spans could not be exported\n%s", len(batch), traceback_without(error))

    def _taken(self) -> list[Trace | Span[Any]]:
        with self._changed:
            if self._lost:
                _LOG.warning("%d spans were lost: the exporter is slower than the runs", self._lost)
                self._lost = 0
            return [self._queue.popleft() for _ in range(min(self._batch, len(self._queue)))]


class _Default:
    """The exporter to OpenAI and its processor, made when first asked for."""

    lock = threading.Lock()
    exporter: BackendSpanExporter | None = None
    processor: BatchTraceProcessor | None = None
    added = False


def default_exporter() -> BackendSpanExporter:
    """The exporter to OpenAI's trace view, the same each time.

    >>> default_exporter() is default_exporter()
    True
    """
    _Default.exporter = _Default.exporter or BackendSpanExporter()
    return _Default.exporter


def default_processor() -> BatchTraceProcessor:
    """The processor in front of `default_exporter`, the same each time; give it to `add_trace_processor`.

    >>> default_processor() is default_processor()
    True
    """
    _Default.processor = _Default.processor or BatchTraceProcessor(default_exporter())
    return _Default.processor


def set_tracing_export_api_key(api_key: str) -> None:
    """Send the traces of this process to OpenAI's trace view from now on, with this key.

    Keyturn sends traces nowhere by itself: this call is what switches it on. What is sensitive stays out of them unless
    `RunConfig(trace_include_sensitive_data=True)`.

    >>> from keyturn import set_trace_processors
    >>> set_tracing_export_api_key("sk-test")
    >>> set_trace_processors([])  # and off again
    """
    default_exporter().set_api_key(api_key)
    with _Default.lock:
        if not is_heard(default_processor()):
            add_trace_processor(default_processor())
