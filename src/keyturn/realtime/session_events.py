"""What a realtime session tells its user: one class for each kind, told apart by `type`.

Who is at work, what tools do and what requires a decision is told from the run's log, after it is recorded. What the
model says is passed on as it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from ..agents.context import RunContextWrapper
from ..agents.guardrail import OutputGuardrailResult
from ..engine.views.items import ToolApprovalItem
from .items import RealtimeItem, own_part
from .model_events import RealtimeModelAudioEvent, RealtimeModelEvent

C = TypeVar("C", bound=type)


class _Read(NamedTuple):
    """Holds what an event holds, and the copy of it that its reader has."""

    held: Any
    copy: Any


class _OwnCopy:
    """Gives the reader of an event a copy of what it holds, made when it is first read: an edit reaches no record."""

    def __init__(self, slot: Any) -> None:
        self._slot = slot

    def __get__(self, event: Any, owner: type) -> Any:
        if event is None:
            return self
        kept = self._slot.__get__(event, owner)
        if type(kept) is not _Read:
            kept = _Read(kept, own_part(kept))
            self._slot.__set__(event, kept)
        return kept.copy

    def __set__(self, event: Any, value: Any) -> None:
        self._slot.__set__(event, value)

    def held(self, event: Any) -> Any:
        """Return what the event holds, without a copy."""
        kept = self._slot.__get__(event, type(event))
        return kept.held if type(kept) is _Read else kept


def _copied(name: str) -> Callable[[C], C]:
    """Let an event hand out one of its fields as a copy."""

    def made(event: C) -> C:
        setattr(event, name, _OwnCopy(getattr(event, name)))
        return event

    return made


def held(event: object, name: str) -> Any:
    """Return what an event holds under a name, without a copy: it is only looked at."""
    kind: Any = event.__class__
    return getattr(kind, name).held(event)


@dataclass(slots=True)
class RealtimeEventInfo:
    """Holds what every event has: the context of the run."""

    context: RunContextWrapper[Any]


@dataclass(slots=True)
class RealtimeAgentStartEvent:
    """Tells that an agent is at work: a turn of its model began."""

    agent: Any
    info: RealtimeEventInfo
    type: Literal["agent_start"] = "agent_start"


@dataclass(slots=True)
class RealtimeAgentEndEvent:
    """Tells that a turn of an agent's model has ended."""

    agent: Any
    info: RealtimeEventInfo
    type: Literal["agent_end"] = "agent_end"


@dataclass(slots=True)
class RealtimeHandoffEvent:
    """Tells that the conversation was handed over to another agent."""

    from_agent: Any
    to_agent: Any
    info: RealtimeEventInfo
    type: Literal["handoff"] = "handoff"


@dataclass(slots=True)
class RealtimeToolStart:
    """Tells that a tool is about to run; `tool` is it, `arguments` the text that it runs with."""

    agent: Any
    tool: Any
    arguments: str
    info: RealtimeEventInfo
    call_id: str = ""
    type: Literal["tool_start"] = "tool_start"


@dataclass(slots=True)
class RealtimeToolEnd:
    """Tells a call's result; a call that was rejected has one, too, without having started."""

    agent: Any
    tool: Any
    arguments: str
    output: Any
    info: RealtimeEventInfo
    call_id: str = ""
    type: Literal["tool_end"] = "tool_end"


@dataclass(slots=True)
class RealtimeToolApprovalRequired:
    """Tells that a call waits for somebody: `item` is the request, as an inbox has it.

    Its `kind` is "approval", "external" where its tool asks for an answer, or "in_doubt". `request_id` names it among
    all requests, while providers repeat a `call_id`.
    """

    agent: Any
    tool: Any
    call_id: str
    arguments: str
    info: RealtimeEventInfo
    item: ToolApprovalItem = field(default_factory=lambda: ToolApprovalItem(None))
    type: Literal["tool_approval_required"] = "tool_approval_required"

    @property
    def request_id(self) -> str:
        """Return the id of the request."""
        return self.item.request_id


@dataclass(slots=True)
class RealtimeToolApprovalDecided:
    """Tells that a call waits no longer, whoever decided and wherever, or that its time ran out."""

    call_id: str
    request_id: str
    info: RealtimeEventInfo
    type: Literal["tool_approval_decided"] = "tool_approval_decided"


@_copied("data")
@dataclass(slots=True)
class RealtimeRawModelEvent:
    """Tells an event of the model as it is."""

    data: RealtimeModelEvent
    info: RealtimeEventInfo
    type: Literal["raw_model_event"] = "raw_model_event"


@dataclass(slots=True)
class RealtimeAudio:
    """Tells a piece of the model's voice: `audio.data` is to be played."""

    audio: RealtimeModelAudioEvent
    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio"] = "audio"


@dataclass(slots=True)
class RealtimeAudioEnd:
    """Tells that all audio of a part was told."""

    info: RealtimeEventInfo
    item_id: str
    content_index: int
    type: Literal["audio_end"] = "audio_end"


@dataclass(slots=True)
class RealtimeAudioInterrupted:
    """Tells that the model's voice was cut off: whatever is still to be played is to be dropped."""

    info: RealtimeEventInfo
    item_id: str
    content_index: int
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass(slots=True)
class RealtimeError:
    """Tells of an error that the session survives."""

    error: Any
    info: RealtimeEventInfo
    type: Literal["error"] = "error"


@_copied("item")
@dataclass(slots=True)
class RealtimeHistoryAdded:
    """Tells of a new item of the conversation."""

    item: RealtimeItem
    info: RealtimeEventInfo
    type: Literal["history_added"] = "history_added"


@_copied("history")
@dataclass(slots=True)
class RealtimeHistoryUpdated:
    """Tells the conversation as it is now."""

    history: list[RealtimeItem]
    info: RealtimeEventInfo
    type: Literal["history_updated"] = "history_updated"


@dataclass(slots=True)
class RealtimeGuardrailTripped:
    """Tells that output guardrails stopped the model, and what it was saying."""

    guardrail_results: list[OutputGuardrailResult]
    message: str
    info: RealtimeEventInfo
    type: Literal["guardrail_tripped"] = "guardrail_tripped"


@dataclass(slots=True)
class RealtimeInputAudioTimeoutTriggered:
    """Tells that the user said nothing for as long as the turn detection waits."""

    info: RealtimeEventInfo
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


RealtimeSessionEvent = (
    RealtimeAgentStartEvent
    | RealtimeAgentEndEvent
    | RealtimeHandoffEvent
    | RealtimeToolStart
    | RealtimeToolEnd
    | RealtimeToolApprovalRequired
    | RealtimeToolApprovalDecided
    | RealtimeRawModelEvent
    | RealtimeAudio
    | RealtimeAudioEnd
    | RealtimeAudioInterrupted
    | RealtimeError
    | RealtimeHistoryAdded
    | RealtimeHistoryUpdated
    | RealtimeGuardrailTripped
    | RealtimeInputAudioTimeoutTriggered
)

#: Events that a reader who is far behind can do without: the oldest of them go where too many wait.
DROPPABLE = frozenset({"raw_model_event", "audio", "history_updated"})
