"""Re-export the events of a streamed run under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import AgentUpdatedStreamEvent as AgentUpdatedStreamEvent
from . import RawResponsesStreamEvent as RawResponsesStreamEvent
from . import RunItemStreamEvent as RunItemStreamEvent
from . import StreamEvent as StreamEvent
from .support.missing import speaks

speaks(__name__)
