"""Tracing: `base.py` is the seam, `otel.py` and `processing.py` are its members, `genai.py` has the words.

`trace.py`, `create.py` and `spans.py` are what users hold.

What the engine needs is imported here; the other public names of the room are imported when first used.
"""

from __future__ import annotations

from ..support.lazy import lazy_names
from .genai import of_model as of_model
from .genai import of_reply as of_reply
from .genai import of_request as of_request
from .genai import of_usage as of_usage
from .trace import Trace as Trace
from .trace import gen_trace_id as gen_trace_id
from .trace import get_current_trace as get_current_trace
from .trace import set_tracing_disabled as set_tracing_disabled
from .trace import trace as trace  # the function: the module of that name is reached by its path
from .trace import tracer_for as tracer_for

_HOMES = {
    "add_trace_processor": "processing",
    "agent_span": "create",
    "AgentSpanData": "span_data",
    "BackendSpanExporter": "export",
    "BatchTraceProcessor": "processors",
    "ConsoleSpanExporter": "processors",
    "custom_span": "create",
    "CustomSpanData": "span_data",
    "default_exporter": "processors",
    "default_processor": "processors",
    "flush_traces": "processing",
    "function_span": "create",
    "FunctionSpanData": "span_data",
    "gen_span_id": "processing",
    "generation_span": "create",
    "GenerationSpanData": "span_data",
    "get_current_span": "spans",
    "guardrail_span": "create",
    "GuardrailSpanData": "span_data",
    "handoff_span": "create",
    "HandoffSpanData": "span_data",
    "mcp_tools_span": "create",
    "MCPListToolsSpanData": "span_data",
    "response_span": "create",
    "ResponseSpanData": "span_data",
    "set_trace_processors": "processing",
    "set_tracing_export_api_key": "processors",
    "Span": "spans",
    "SpanData": "span_data",
    "SpanError": "spans",
    "task_span": "create",
    "TaskSpanData": "span_data",
    "TracingExporter": "processor_interface",
    "TracingProcessor": "processor_interface",
    "turn_span": "create",
    "TurnSpanData": "span_data",
}

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
