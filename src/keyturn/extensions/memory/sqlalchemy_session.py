"""A path of the OpenAI Agents SDK: conversations in a SQL database. It defines nothing."""

from __future__ import annotations

from ... import SQLAlchemySession as SQLAlchemySession
from ..._missing import speaks

speaks(__name__)
