"""Spans of OpenTelemetry: the only file that imports it, loaded when there is a tracer provider.

It names nothing: which spans there are, and what they say, is told by those who start them. Whatever a span processor
raises is logged and stays here: a run never fails because it is watched.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from opentelemetry import trace as otel

from .._version import __version__
from ..support.credentials import traceback_without
from ..support.user_code import contained
from .base import NoSpan, Span

_PLAIN = (bool, int, float)
_LOG = logging.getLogger("keyturn.tracing")


class OtelSpan:
    """Wraps one span of OpenTelemetry."""

    __slots__ = ("span",)

    def __init__(self, span: otel.Span) -> None:
        self.span = span

    @property
    def place(self) -> str:
        """Return the span's address as a `traceparent`."""
        return _place(self.span.get_span_context())

    def tell(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes."""
        with _harmless():
            if self.span.is_recording():
                self.span.set_attributes(_plain(attributes))

    def rename(self, name: str) -> None:
        """Set another name."""
        self.span.update_name(name)

    def failed(self, kind: str, text: str = "") -> None:
        """Set the error status."""
        with _harmless():
            self.span.set_attribute("error.type", kind)
            self.span.set_status(otel.Status(otel.StatusCode.ERROR, _text(text) or None))

    def end(self) -> None:
        """End the span."""
        with _harmless():
            if self.span.is_recording():
                self.span.end()

    def current(self) -> AbstractContextManager[Any]:
        """Make the span current; errors that pass are recorded by whoever knows what of them may be."""
        return otel.use_span(self.span, end_on_exit=False, record_exception=False, set_status_on_exception=False)


class OtelTracer:
    """Starts spans of one tracer provider."""

    def __init__(self, provider: otel.TracerProvider) -> None:
        self._tracer = provider.get_tracer("keyturn", __version__)

    def start(
        self,
        name: str,
        attributes: Mapping[str, Any],
        *,
        parent: Span | str | None = None,
        links: Sequence[str] = (),
        client: bool = False,
    ) -> Span:
        """Start a span."""
        context = None
        if isinstance(parent, OtelSpan):
            context = otel.set_span_in_context(parent.span)
        elif isinstance(parent, str):
            context = otel.set_span_in_context(otel.NonRecordingSpan(_context(parent)))
        kind = otel.SpanKind.CLIENT if client else otel.SpanKind.INTERNAL
        to = [otel.Link(_context(place)) for place in links]
        with _harmless():
            return OtelSpan(self._tracer.start_span(name, context, kind, _plain(attributes), to))
        return NoSpan()

    def here(self) -> str:
        """Return the place of the current span."""
        return _place(otel.get_current_span().get_span_context())


@contextmanager
def _harmless() -> Generator[None]:
    try:
        with contained:
            yield
    except Exception as error:
        _LOG.warning("a span could not be exported; the run continues\n%s", traceback_without(error))


def configured() -> otel.TracerProvider | None:
    """Return the tracer provider of this process, None where it still has OpenTelemetry's stand-in."""
    provider = otel.get_tracer_provider()
    return None if isinstance(provider, otel.ProxyTracerProvider | otel.NoOpTracerProvider) else provider


def _place(context: otel.SpanContext) -> str:
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}"


def _context(place: str) -> otel.SpanContext:
    _version, trace, span, flags = place.split("-")
    return otel.SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=otel.TraceFlags(int(flags, 16)))


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in attributes.items() if value is not None}


def _value(value: object) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in cast("Sequence[Any]", value)):
        return [_text(each) for each in cast("Sequence[str]", value)]
    return _text(json.dumps(value, ensure_ascii=False, default=repr))


def _text(text: str) -> str:
    """Return the text as UTF-8 can hold it: a lone surrogate would cost the exporter its whole batch."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
