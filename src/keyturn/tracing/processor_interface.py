"""The seam to a trace processor: who hears of traces and spans as they begin and end.

A processor decides nothing: what it raises is logged, and the run goes on. Nothing here knows how spans are made.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from .spans import Span
from .trace import Trace


class TracingProcessor(abc.ABC):
    """Hears of every trace and span of this process, once given to `add_trace_processor`.

    It is called where the span begins and ends, so it must be quick, and may be called from several threads.

    >>> class Names(TracingProcessor):
    ...     def on_trace_start(self, trace): print("begins", trace.name)
    ...     def on_trace_end(self, trace): print("ends", trace.name)
    ...     def on_span_start(self, span): pass
    ...     def on_span_end(self, span): print(span.span_data.type)
    ...     def shutdown(self): pass
    ...     def force_flush(self): pass
    >>> Names().on_trace_start(Trace("Refunds"))
    begins Refunds
    """

    @abc.abstractmethod
    def on_trace_start(self, trace: Trace) -> None:
        """A trace begins.

        A run that is taken up again goes on in its trace, which does not begin anew.
        """

    @abc.abstractmethod
    def on_trace_end(self, trace: Trace) -> None:
        """A trace ends."""

    @abc.abstractmethod
    def on_span_start(self, span: Span[Any]) -> None:
        """A span begins."""

    @abc.abstractmethod
    def on_span_end(self, span: Span[Any]) -> None:
        """A span ends; it does not change any more."""

    @abc.abstractmethod
    def shutdown(self) -> None:
        """The process ends: send what is left."""

    @abc.abstractmethod
    def force_flush(self) -> None:
        """Send what is there now, and return when it is sent."""


class TracingExporter(abc.ABC):
    """Sends traces and spans somewhere; `BatchTraceProcessor` gives it several at once.

    >>> sorted(TracingExporter.__abstractmethods__)
    ['export']
    """

    @abc.abstractmethod
    def export(self, items: Sequence[Trace | Span[Any]]) -> None:
        """Send them."""
