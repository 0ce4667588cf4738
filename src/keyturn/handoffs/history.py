"""Re-export a conversation told in one message under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .. import default_handoff_history_mapper as default_handoff_history_mapper
from .. import get_conversation_history_wrappers as get_conversation_history_wrappers
from .. import nest_handoff_history as nest_handoff_history
from .. import reset_conversation_history_wrappers as reset_conversation_history_wrappers
from .. import set_conversation_history_wrappers as set_conversation_history_wrappers
from ..support.missing import speaks

speaks(__name__)
