"""Re-export extras under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from . import handoff_filters as handoff_filters
from . import handoff_prompt as handoff_prompt

speaks(__name__)
