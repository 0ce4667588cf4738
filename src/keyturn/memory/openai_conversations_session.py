"""Re-export conversations at OpenAI under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .. import OpenAIConversationsSession as OpenAIConversationsSession
from ..support.missing import speaks

speaks(__name__)
