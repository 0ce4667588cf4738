"""A path of the OpenAI Agents SDK: conversations in SQLite. It defines nothing."""

from __future__ import annotations

from .. import SQLiteSession as SQLiteSession
from .._missing import speaks

speaks(__name__)
