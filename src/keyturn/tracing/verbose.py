"""Verbose logging: each trace and span as a line of the log, on stdout.

What a line says is what a span may say: arguments, results and messages only where a run traces sensitive data.
"""

from __future__ import annotations

import logging
import sys
from datetime import datetime
from typing import Any

from .processing import add_trace_processor, is_heard, remove_trace_processor
from .processor_interface import TracingProcessor
from .spans import Span
from .trace import Trace

_LOG = logging.getLogger("keyturn.runs")


class SpanLog(TracingProcessor):
    """Logs traces and spans to `keyturn.runs`, at DEBUG.

    >>> SpanLog().on_trace_start(Trace("Refunds"))  # nothing to be seen until DEBUG is on
    """

    def on_trace_start(self, trace: Trace) -> None:
        """A trace begins."""
        _LOG.debug("trace %s begins (%s)", trace.name, trace.trace_id)

    def on_trace_end(self, trace: Trace) -> None:
        """A trace ends."""
        _LOG.debug("trace %s ends (%s)", trace.name, trace.trace_id)

    def on_span_start(self, span: Span[Any]) -> None:
        """A span begins."""
        _LOG.debug("%s begins", span.span_data.span_name)

    def on_span_end(self, span: Span[Any]) -> None:
        """A span ends: how long it took, and what went wrong."""
        problem = "" if span.error is None else f", failed: {span.error['message']}"
        told = {name: value for name, value in span.span_data.export().items() if value is not None}
        _LOG.debug("%s ends after %s%s %s", span.span_data.span_name, _took(span), problem, told)

    def shutdown(self) -> None:
        """There is nothing left."""

    def force_flush(self) -> None:
        """There is nothing left."""


_SPAN_LOG = SpanLog()


def enable_verbose_stdout_logging() -> None:
    """Write all that Keyturn logs to stdout, and each step of each run with it: for finding out what goes on.

    Once more does nothing. `logging.getLogger("keyturn")` is where to set this up in detail.

    >>> enable_verbose_stdout_logging()
    >>> logging.getLogger("keyturn").level == logging.DEBUG
    True
    >>> disable_verbose_stdout_logging()
    """
    logger = logging.getLogger("keyturn")
    logger.setLevel(logging.DEBUG)
    if not any(isinstance(handler, _Stdout) for handler in logger.handlers):
        handler = _Stdout()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
    if not is_heard(_SPAN_LOG):
        add_trace_processor(_SPAN_LOG)


def disable_verbose_stdout_logging() -> None:
    """Take back what `enable_verbose_stdout_logging` did.

    >>> disable_verbose_stdout_logging()
    """
    logger = logging.getLogger("keyturn")
    for handler in [handler for handler in logger.handlers if isinstance(handler, _Stdout)]:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    remove_trace_processor(_SPAN_LOG)


class _Stdout(logging.StreamHandler[Any]):
    """Writes to what is stdout at that moment, as tests and notebooks change it."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def emit(self, record: logging.LogRecord) -> None:
        self.setStream(sys.stdout)
        super().emit(record)


def _took(span: Span[Any]) -> str:
    if span.started_at is None or span.ended_at is None:
        return "an unknown time"
    took = datetime.fromisoformat(span.ended_at) - datetime.fromisoformat(span.started_at)
    return f"{took.total_seconds():.3f} s"
