"""A path of the OpenAI Agents SDK: a type for sessions. It defines nothing."""

from __future__ import annotations

from .._missing import speaks
from ..agents.settings import SessionInputCallback as SessionInputCallback

speaks(__name__)
