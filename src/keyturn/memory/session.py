"""Re-export what a session is under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .. import Session as Session
from .. import SessionABC as SessionABC
from ..support.missing import speaks

speaks(__name__)
