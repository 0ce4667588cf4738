"""Re-export a type for sessions under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .._missing import speaks
from ..agents.settings import SessionInputCallback as SessionInputCallback

speaks(__name__)
