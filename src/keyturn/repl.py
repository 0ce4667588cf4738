"""A path of the OpenAI Agents SDK: a conversation at the keyboard. It defines nothing."""

from __future__ import annotations

from . import run_demo_loop as run_demo_loop
from ._missing import speaks

speaks(__name__)
