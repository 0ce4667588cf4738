"""What the tests of tracing share: a provider that keeps its spans, and a short way to read them."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from keyturn import RunConfig


class Seen:
    """A tracer provider, and the spans that it was told."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def config(self, **settings: Any) -> RunConfig:
        """A run's settings under which its spans come here."""
        return RunConfig(tracing=self.provider, **settings)

    @property
    def spans(self) -> list[ReadableSpan]:
        """All spans that are over, in the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def tree(self) -> list[str]:
        """The spans by name, each indented below its parent."""
        parents = {span.context.span_id: span.parent and span.parent.span_id for span in self.spans}

        def depth(span_id: int | None) -> int:
            return -1 if span_id not in parents else 1 + depth(parents[span_id])

        return ["  " * depth(span.context.span_id) + span.name for span in self.spans]

    def one(self, name: str) -> ReadableSpan:
        """The only span of that name."""
        [span] = self.named(name)
        return span

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of that name."""
        return [span for span in self.spans if span.name == name]

    def traces(self) -> set[str]:
        """The ids of the traces that the spans are in."""
        return {f"trace_{span.context.trace_id:032x}" for span in self.spans}

    def text(self) -> str:
        """Everything that the spans say."""
        return "\n".join(span.to_json() for span in self.spans)

    def clear(self) -> None:
        """Forget what was seen so far."""
        self.exporter.clear()


def of(span: ReadableSpan) -> dict[str, Any]:
    """What a span says."""
    return dict(span.attributes or {})
