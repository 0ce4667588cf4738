"""A path of the OpenAI Agents SDK: traces. It defines nothing."""

from __future__ import annotations

from .._missing import speaks
from .trace import Trace as Trace

speaks(__name__)
