"""A path of the OpenAI Agents SDK: conversations at OpenAI. It defines nothing."""

from __future__ import annotations

from .. import OpenAIConversationsSession as OpenAIConversationsSession
from .._missing import speaks

speaks(__name__)
