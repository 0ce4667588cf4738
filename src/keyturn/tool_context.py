"""A path of the OpenAI Agents SDK: the context of a call. It defines nothing."""

from __future__ import annotations

from . import ToolContext as ToolContext
from ._missing import speaks

speaks(__name__)
