"""Re-export models by name under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from .routing import MultiProvider as MultiProvider

speaks(__name__)
