"""Re-export conversations in SQLite under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .. import SQLiteSession as SQLiteSession
from ..support.missing import speaks

speaks(__name__)
