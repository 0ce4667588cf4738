"""Hear what a session's model tells: pass it on to the session's user, keep the conversation, record what counts.

Nothing here decides whether a tool runs: a call is recorded, and goes through the gate as every call does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from ..core.errors import ModelBehaviorError
from ..core.usage import Usage, addable
from . import model_events as me
from .connections import Connections
from .conversation import KEPT, Conversation, assistant_item, text_of, user_item
from .event_buffer import EventBuffer
from .items import AssistantMessageItem, InputAudio, UserMessageItem
from .model import RealtimeModelListener
from .output_guards import Judges, OutputGuards
from .recording import Recorder
from .session_events import (
    RealtimeAgentEndEvent,
    RealtimeAgentStartEvent,
    RealtimeAudio,
    RealtimeAudioEnd,
    RealtimeAudioInterrupted,
    RealtimeError,
    RealtimeEventInfo,
    RealtimeHistoryAdded,
    RealtimeHistoryUpdated,
    RealtimeInputAudioTimeoutTriggered,
    RealtimeRawModelEvent,
)
from .turns import Turn, Turns

# How many messages that were sent may be on their way back at once.
_ECHOES = 1_000


class Hearing(RealtimeModelListener):
    """Hears a model for a session."""

    def __init__(
        self,
        events: EventBuffer,
        info: RealtimeEventInfo,
        conversation: Conversation,
        recorder: Recorder,
        guards: OutputGuards,
        agent: Callable[[str], tuple[Any, list[Any]]],
        connections: Connections,
        called: Callable[[me.RealtimeModelToolCallEvent, str], Awaitable[None]],
    ) -> None:
        self._events, self._info = events, info
        self.conversation = conversation
        self._recorder = recorder
        self._guards = guards
        # The agent of a path, and the output guardrails that look at what it says.
        self._agent = agent
        self._connections = connections
        # Takes a call, with the path of the agent whose tools the connection has.
        self._take_call = called
        self._usage = Usage()
        self._turns = Turns()
        # What is recorded of messages, by their ids.
        self._recorded: dict[str, str] = {}
        self._echoes: deque[str] = deque(maxlen=_ECHOES)

    def _own(self, name: str) -> None:
        """Note the id of an item or call that came from the connection itself."""
        self._connections.delivery.own.add(name)

    def sent(self, text: str) -> None:
        """Expect a message that was sent, and is recorded, to come back as an item."""
        self._echoes.append(text)

    async def on_event(self, event: me.RealtimeModelEvent) -> None:
        self._events.put(RealtimeRawModelEvent(event, self._info))
        heard = self._HEARD.get(event.type)
        if heard is not None:
            try:
                await heard(self, event)
            except Exception as error:  # an event that makes no sense is told, and the next one is heard
                self._events.put(RealtimeError(error, self._info))

    async def flush(self) -> None:
        """Record what was said and not recorded yet."""
        await self._turn_ended(None)

    # What the model does ------------------------------------------------------------------------------------------

    async def _called(self, event: me.RealtimeModelToolCallEvent) -> None:
        self._own(event.call_id)
        await self._take_call(event, self._maker(event.response_id))

    async def _asked(self, event: me.RealtimeModelApprovalRequestEvent) -> None:
        item = {**event.item, "type": "mcp_approval_request"}
        await self._recorder.request(item, self._maker(event.response_id), self._connections.delivery)

    async def _hosted_ended(self, event: me.RealtimeModelHostedCallEndedEvent) -> None:
        self._connections.delivery.approvals.reported(event.request_id)

    def _maker(self, response: str | None) -> str:
        """Return the path of the agent with whose tools the model made a call."""
        delivery = self._connections.delivery
        turn = self._turns.find(response, delivery)
        return delivery.agent if turn is None else turn.agent

    def _judges(self, turn: Turn) -> Judges:
        """Return the guardrails that look at what is said in a turn, each once, with the agent that they look for."""
        judges: list[tuple[Any, Any]] = []
        for agent, guards in map(self._agent, turn.agents):
            judges += [(agent, guard) for guard in guards if all(guard is not known for _agent, known in judges)]
        return judges

    async def _turn_started(self, event: me.RealtimeModelTurnStartedEvent) -> None:
        delivery = self._connections.delivery
        turn, new = self._turns.begin(event.response_id, delivery, pending=event.settings_pending)
        if new:
            self._recorder.heard = delivery.told
        self._events.put(RealtimeAgentStartEvent(self._agent(turn.agent)[0], self._info))

    async def _used(self, event: me.RealtimeModelUsageEvent) -> None:
        if not addable(event.usage.counts()):
            raise ModelBehaviorError("the model counts a usage that cannot be added; it is left out")
        before, self._usage = self._usage, Usage()
        self._usage.add(event.usage)
        await self._recorder.turn([], before)  # of a turn whose end was never told

    async def _turn_ended(self, event: me.RealtimeModelTurnEndedEvent | None) -> None:
        ended = self._turns.end(None if event is None else event.response_id, self._connections.delivery)
        said: list[Any] = []
        for item_id, turn in self._turns.take_whole():
            for item in self.conversation.items_of([item_id]):
                said += self._new_words(item, turn)
        self._guards.ended()
        usage, self._usage = self._usage, Usage()
        await self._recorder.turn(said, usage)
        self._recorder.heard = None
        if event is not None:
            self._events.put(RealtimeAgentEndEvent(self._agent(ended.agent)[0], self._info))

    def _new_words(self, item: Any, turn: Turn) -> list[Any]:
        """Have guardrails look at what a message of the model says anew, and return it to be recorded."""
        text, known = text_of(item), self._recorded.get(item.item_id, "")
        if not isinstance(item, AssistantMessageItem) or known.startswith(text):
            return []
        self._recorded[item.item_id] = text
        self._own(item.item_id)
        self._guards.whole(turn, self._judges(turn), text)
        return [] if known and text.startswith(known) else [assistant_item(item)]  # else it is more of what is recorded

    # What is said -------------------------------------------------------------------------------------------------

    async def _item(self, event: me.RealtimeModelItemUpdatedEvent) -> None:
        item = event.item
        if item.item_id.startswith(KEPT) or not item.item_id:  # the connection was told of it from the log
            return
        added = self.conversation.update(item)
        if isinstance(item, AssistantMessageItem):
            self._turns.of(item.item_id, "", self._connections.delivery)
        elif isinstance(item, UserMessageItem) and added:
            await self._written(item)
        self._tell_history(item.item_id if added else None)

    async def _written(self, item: UserMessageItem) -> None:
        """Record what a user wrote past the session, as a raw message; what the session sent is recorded already."""
        text = text_of(item)
        if any(isinstance(part, InputAudio) for part in item.content) or not text:
            return
        if text in self._echoes:
            self._echoes.remove(text)
            return
        self._own(item.item_id)
        await self._recorder.user(user_item(text, item.item_id))

    async def _deleted(self, event: me.RealtimeModelItemDeletedEvent) -> None:
        if self.conversation.delete(event.item_id):
            self._tell_history(None)

    async def _heard(self, event: me.RealtimeModelInputAudioTranscriptionCompletedEvent) -> None:
        self.conversation.heard(event.item_id, event.transcript)
        if event.transcript and event.item_id not in self._recorded:
            self._recorded[event.item_id] = event.transcript
            self._own(event.item_id)
            await self._recorder.user(user_item(event.transcript, event.item_id))
        self._tell_history(None)

    async def _said(self, event: me.RealtimeModelTranscriptDeltaEvent | me.RealtimeModelOutputTextDeltaEvent) -> None:
        text = self.conversation.said(event.item_id, event.delta, written=event.type == "output_text_delta")
        turn = self._turns.of(event.item_id, event.response_id, self._connections.delivery)
        self._guards.said(turn, self._judges(turn), event.item_id, text)
        self._tell_history(None)

    def _tell_history(self, added: str | None) -> None:
        if added is not None:
            for item in self.conversation.items_of([added]):
                self._events.put(RealtimeHistoryAdded(item, self._info))
        self._events.put(RealtimeHistoryUpdated(self.conversation.snapshot(), self._info))

    def answered(self, call_id: str, output: object) -> None:
        """Show a call's result in the conversation."""
        if self.conversation.answered(call_id, output if isinstance(output, str) else str(output)) is not None:
            self._tell_history(None)

    # Audio, errors and the connection -----------------------------------------------------------------------------

    async def _audio(self, event: me.RealtimeModelAudioEvent) -> None:
        self._events.put(RealtimeAudio(event, event.item_id, event.content_index, self._info))

    async def _audio_done(self, event: me.RealtimeModelAudioDoneEvent) -> None:
        self._events.put(RealtimeAudioEnd(self._info, event.item_id, event.content_index))

    async def _cut_off(self, event: me.RealtimeModelAudioInterruptedEvent) -> None:
        self._events.put(RealtimeAudioInterrupted(self._info, event.item_id, event.content_index))

    async def _silent(self, _event: me.RealtimeModelInputAudioTimeoutTriggeredEvent) -> None:
        self._events.put(RealtimeInputAudioTimeoutTriggered(self._info))

    async def _failed(self, event: me.RealtimeModelErrorEvent) -> None:
        self._events.put(RealtimeError(event.error, self._info))

    async def _broke(self, event: me.RealtimeModelExceptionEvent) -> None:
        self._events.put(RealtimeError(event.exception, self._info))

    async def _status(self, event: me.RealtimeModelConnectionStatusEvent) -> None:
        if event.status == "disconnected":
            self._connections.lost()

    _HEARD: ClassVar[dict[str, Callable[[Hearing, Any], Awaitable[None]]]] = {
        "function_call": _called,
        "mcp_approval_request": _asked,
        "hosted_call_ended": _hosted_ended,
        "turn_started": _turn_started,
        "turn_ended": _turn_ended,
        "usage": _used,
        "item_updated": _item,
        "item_deleted": _deleted,
        "input_audio_transcription_completed": _heard,
        "transcript_delta": _said,
        "output_text_delta": _said,
        "audio": _audio,
        "audio_done": _audio_done,
        "audio_interrupted": _cut_off,
        "input_audio_timeout_triggered": _silent,
        "error": _failed,
        "exception": _broke,
        "connection_status": _status,
    }
