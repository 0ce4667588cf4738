"""Re-export a conversation at the keyboard under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import run_demo_loop as run_demo_loop
from .support.missing import speaks

speaks(__name__)
