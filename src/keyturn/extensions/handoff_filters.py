"""Re-export filters for handoffs under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .. import default_handoff_history_mapper as default_handoff_history_mapper
from .. import nest_handoff_history as nest_handoff_history
from ..agents.handoff_filters import remove_all_tools as remove_all_tools
from ..support.missing import speaks

speaks(__name__)
