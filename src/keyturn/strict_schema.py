"""Re-export strict JSON schemas under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .support.missing import speaks
from .tools.strict_schema import ensure_strict_json_schema as ensure_strict_json_schema

speaks(__name__)
