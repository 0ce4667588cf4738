"""Re-export conversations in a SQL database under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ... import SQLAlchemySession as SQLAlchemySession
from ...support.missing import speaks

speaks(__name__)
