"""Re-export the version under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import __version__ as __version__
from .support.missing import speaks

speaks(__name__)
