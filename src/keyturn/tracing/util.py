"""Re-export ids for traces under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from .processing import gen_span_id as gen_span_id
from .spans import now as now
from .trace import gen_trace_id as gen_trace_id

time_iso = now

speaks(__name__)
