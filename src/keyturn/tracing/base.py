"""The seam to a tracer: what is needed of spans, whoever makes them.

A span is told names and plain values; the tracer knows how they travel. A place is a span's address as a W3C
`traceparent`: text, so that a log can keep it and another process can link to it days later. No tracing library is
named here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from typing import Any, Protocol

from ..core.errors import UserError

_TRACE_ID = re.compile(r"(?:trace_)?([0-9a-f]{32})")


class Span(Protocol):
    """Records something that takes time, or a moment; attributes are added until it ends."""

    @property
    def place(self) -> str:
        """Return the span's address, a W3C `traceparent`; "" where it has none."""
        ...

    def tell(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes; a value that is not plain is written as JSON, None is left out."""
        ...

    def rename(self, name: str) -> None:
        """Set the name to what it turned out to be."""
        ...

    def failed(self, kind: str, text: str = "") -> None:
        """Set the error status: the kind of error, and its text only where the user wants texts recorded."""
        ...

    def end(self) -> None:
        """End the span; ending twice does nothing."""
        ...

    def current(self) -> AbstractContextManager[Any]:
        """Make it the parent of every span that begins inside the `with`."""
        ...


class Tracer(Protocol):
    """Starts spans."""

    def start(
        self,
        name: str,
        attributes: Mapping[str, Any],
        *,
        parent: Span | str | None = None,
        links: Sequence[str] = (),
        client: bool = False,
    ) -> Span:
        """Start a span below another one, below a place, or below the current one.

        `client` says that it calls a service.
        """
        ...

    def here(self) -> str:
        """Return the place of the current span, "" where there is none."""
        ...


class NoSpan:
    """Does nothing: the span where nobody traces.

    >>> NoSpan().place
    ''
    """

    place = ""

    def tell(self, attributes: Mapping[str, Any]) -> None:
        """Do nothing."""

    def rename(self, name: str) -> None:
        """Do nothing."""

    def failed(self, kind: str, text: str = "") -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def current(self) -> AbstractContextManager[Any]:
        """Leave the current span as it is."""
        return nullcontext()


def trace_hex(trace_id: str) -> str:
    """Return a trace's id as 32 hex digits; any other text is hashed to an id, the same each time.

    >>> trace_hex("trace_" + "0a" * 16)
    '0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a'
    >>> trace_hex("order 17") == trace_hex("order 17") != trace_hex("order 18")
    True
    """
    found = _TRACE_ID.fullmatch(trace_id)
    if found is not None and int(found[1], 16):
        return found[1]
    return blake2b(trace_id.encode(), digest_size=16).hexdigest()


def trace_of(place: str) -> str:
    """Return the trace that a place is in, as 32 hex digits; "" for no place.

    >>> trace_of(outside("0a" * 16)) == "0a" * 16
    True
    """
    return place[3:35]


def outside(trace: str) -> str:
    """Return a place in a trace of which only the id is known: spans below it are in that trace.

    >>> outside("0a" * 16)[:36]
    '00-0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a-'
    """
    return f"00-{trace}-{blake2b(trace.encode(), digest_size=8).hexdigest()}-01"


def check_provider(provider: Any) -> None:
    """Refuse what cannot be a tracer provider.

    >>> check_provider({"api_key": "sk-test"})
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: tracing must be an OpenTelemetry TracerProvider, not a dict; Keyturn sends traces ...
    """
    if provider is not None and not callable(getattr(provider, "get_tracer", None)):
        raise UserError(
            f"tracing must be an OpenTelemetry TracerProvider, not a {type(provider).__name__}; Keyturn sends traces "
            "nowhere by itself: give the provider an exporter of your own"
        )
