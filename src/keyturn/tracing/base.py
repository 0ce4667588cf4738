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
    """Something that takes time, or a moment: what is told of it ends with it."""

    @property
    def place(self) -> str:
        """The span's address; "" where it has none."""
        ...

    def tell(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes. A value that is not plain is written as JSON; None is left out."""
        ...

    def rename(self, name: str) -> None:
        """Give it the name of what it turned out to be."""
        ...

    def failed(self, kind: str, text: str = "") -> None:
        """Say that it failed: the kind of error, and its text only where the user wants texts told."""
        ...

    def end(self) -> None:
        """It is over. Ending twice does nothing."""
        ...

    def current(self) -> AbstractContextManager[Any]:
        """Make it the parent of every span that begins inside the `with`."""
        ...


class Tracer(Protocol):
    """Where spans begin."""

    def start(
        self,
        name: str,
        attributes: Mapping[str, Any],
        *,
        parent: Span | str | None = None,
        links: Sequence[str] = (),
        client: bool = False,
    ) -> Span:
        """A new span, below another one, below a place, or below whatever is current. `client`: it asks a service."""
        ...

    def here(self) -> str:
        """The place of what is current, "" where nothing is."""
        ...


class NoSpan:
    """The span of what nobody traces.

    >>> NoSpan().place
    ''
    """

    place = ""

    def tell(self, attributes: Mapping[str, Any]) -> None:
        """Nobody listens."""

    def rename(self, name: str) -> None:
        """Nobody listens."""

    def failed(self, kind: str, text: str = "") -> None:
        """Nobody listens."""

    def end(self) -> None:
        """It never began."""

    def current(self) -> AbstractContextManager[Any]:
        """What is current stays so."""
        return nullcontext()


def trace_hex(trace_id: str) -> str:
    """A trace's id as 32 hex digits. Another text names a trace as well: its id is made of it, the same each time.

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
    """The trace that a place is in, as 32 hex digits; "" for no place.

    >>> trace_of(outside("0a" * 16)) == "0a" * 16
    True
    """
    return place[3:35]


def outside(trace: str) -> str:
    """A place in a trace of which nothing but the id is known: spans below it are in that trace.

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
