"""Re-export LiteLLM's models under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ...support.missing import speaks

speaks(__name__)
