"""Places and ids: text that a log keeps for years, so it stays as it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from keyturn import tracing
from keyturn.tracing.base import outside, trace_hex, trace_of
from keyturn.tracing.otel import OtelSpan, OtelTracer, configured
from tests.tracing.watching import Seen


@pytest.mark.parametrize("given", ["trace_" + "0" * 32, "TRACE_" + "a" * 32, "trace_" + "a" * 31, "", "order 17"])
def test_what_is_no_id_names_a_trace_all_the_same(given: str) -> None:
    made = trace_hex(given)
    assert (len(made), trace_hex(given)) == (32, made)
    assert int(made, 16) != 0
    assert made != given.removeprefix("trace_")


def test_an_id_is_taken_as_it_is() -> None:
    assert trace_hex("trace_" + "ab" * 16) == trace_hex("ab" * 16) == "ab" * 16


def test_a_place_is_a_traceparent_and_leads_back(seen: Seen) -> None:
    tracer = OtelTracer(seen.provider)
    span = tracer.start("a", {})
    assert isinstance(span, OtelSpan)
    context = span.span.get_span_context()
    assert span.place == f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
    assert trace_of(span.place) == f"{context.trace_id:032x}"
    tracer.start("b", {}, parent=span.place).end()
    below = seen.one("b").parent
    assert below is not None
    assert (below.trace_id, below.span_id, below.is_remote) == (context.trace_id, context.span_id, True)


def test_a_place_of_which_only_the_trace_is_known() -> None:
    assert trace_of(outside("ab" * 16)) == "ab" * 16
    assert len(outside("ab" * 16)) == 55


def test_the_stand_in_provider_is_none(seen: Seen) -> None:
    assert configured() is None
    assert OtelTracer(seen.provider).here() == ""


def test_the_rooms_stub_and_its_table_name_the_same() -> None:
    room = Path(str(tracing.__file__))
    stub = ast.parse(room.with_suffix(".pyi").read_text("utf-8"))
    named = {alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    missing = sorted(name for name in named if not hasattr(tracing, name))
    assert not missing, f"keyturn.tracing lacks {missing}"
    assert set(vars(tracing)["_HOMES"]) <= named
