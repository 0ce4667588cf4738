"""Re-export settings of sessions under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .. import SessionSettings as SessionSettings
from ..support.missing import speaks

speaks(__name__)
