"""Re-export a type for sessions under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..agents.settings import SessionInputCallback as SessionInputCallback
from ..support.missing import speaks

speaks(__name__)
