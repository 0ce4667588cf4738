"""Re-export what a run used under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import RequestUsage as RequestUsage
from . import Usage as Usage
from .support.missing import speaks

speaks(__name__)
