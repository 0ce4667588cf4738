"""Re-export the context of a call under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import ToolContext as ToolContext
from .support.missing import speaks

speaks(__name__)
