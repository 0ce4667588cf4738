"""Re-export traces under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from .trace import Trace as Trace

speaks(__name__)
