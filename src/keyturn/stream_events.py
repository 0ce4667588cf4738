"""A path of the OpenAI Agents SDK: the events of a streamed run. It defines nothing."""

from __future__ import annotations

from . import AgentUpdatedStreamEvent as AgentUpdatedStreamEvent
from . import RawResponsesStreamEvent as RawResponsesStreamEvent
from . import RunItemStreamEvent as RunItemStreamEvent
from . import StreamEvent as StreamEvent
from ._missing import speaks

speaks(__name__)
