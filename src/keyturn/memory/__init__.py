"""Re-export sessions under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .. import OpenAIConversationsSession as OpenAIConversationsSession
from .. import Session as Session
from .. import SessionABC as SessionABC
from .. import SessionSettings as SessionSettings
from .. import SQLiteSession as SQLiteSession
from ..agents.settings import SessionInputCallback as SessionInputCallback
from ..support.missing import speaks

speaks(__name__)
