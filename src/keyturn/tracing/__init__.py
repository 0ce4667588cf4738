"""Tracing: `base.py` is the seam, `trace.py` the users' API, `genai.py` the attributes, `otel.py` the one member."""

from __future__ import annotations

from .genai import of_model as of_model
from .genai import of_reply as of_reply
from .genai import of_request as of_request
from .genai import of_usage as of_usage
from .trace import Trace as Trace
from .trace import get_current_trace as get_current_trace
from .trace import tracer_for as tracer_for
