"""Convert server events of OpenAI's realtime protocol to model events, one connection at a time.

`ServerReader.read` never fails: what is malformed becomes an error event, what is of an unknown kind an `other` event.
It remembers so much of a connection that a call which is told twice is one call, and no more.
"""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import msgspec

from ..core.immutable import immutable
from . import model_events as ev
from .items import RealtimeToolCallItem
from .openai_hosted import HostedEnds
from .openai_items import Malformed, Wire, failure_of, mapping, message_of, text, usage_of, whole
from .openai_settings import SentSettings

# How many calls and items of one connection are remembered; a session has far fewer.
_REMEMBERED = 4096
# How long a tool's name and a call's id are, at most, for them to be remembered from when the call began.
_NAMES = 1_000

Events = Iterable[ev.RealtimeModelEvent]


@immutable
@dataclass(frozen=True)
class RealtimeServerError:
    """Holds an error as the provider told it, or, with the type "protocol_error", what was wrong with an event of it.

    >>> RealtimeServerError("No such tool.", "invalid_request_error").code is None
    True
    """

    message: str
    type: str
    code: str | None = None
    param: str | None = None
    event_id: str | None = None


def parse(frame: str | bytes) -> dict[str, Any]:
    """Return the server event in a frame; raise `Malformed` where there is none in it."""
    if not isinstance(frame, str):
        raise Malformed("the frame is binary, and the protocol has only text")
    try:
        event = msgspec.json.decode(frame)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"the frame is not JSON: {error}") from None
    if not isinstance(event, dict) or not isinstance(cast("Wire", event).get("type"), str):
        raise Malformed("the frame is not an object with a type")
    return cast("dict[str, Any]", event)


def malformed(error: Malformed, kind: str | None = None) -> ev.RealtimeModelErrorEvent:
    """Return the error event for what has a wrong shape; nothing of its contents is quoted."""
    where = f"{kind}: " if kind else ""
    code = "malformed_event" if kind else "malformed_frame"
    return ev.RealtimeModelErrorEvent(RealtimeServerError(f"{where}{error}", "protocol_error", code))


def call_item(call: ev.RealtimeModelToolCallEvent, output: str | None = None) -> ev.RealtimeModelItemUpdatedEvent:
    """Return the event that tells a call's item: at work, or, with its output, completed."""
    return ev.RealtimeModelItemUpdatedEvent(
        RealtimeToolCallItem(
            item_id=call.id or "",
            previous_item_id=call.previous_item_id,
            call_id=call.call_id,
            status="in_progress" if output is None else "completed",
            arguments=call.arguments,
            name=call.name,
            output=output,
        )
    )


class _Recent(OrderedDict[str, Any]):
    """Keeps the newest entries."""

    most = _REMEMBERED

    def __setitem__(self, key: str, value: object) -> None:
        super().__setitem__(key, value)
        if len(self) > self.most:
            self.popitem(last=False)


class _Few(_Recent):
    """Keeps a few entries, which may be large."""

    most = 64


class ServerReader:
    """Reads the events of one connection.

    >>> reader = ServerReader()
    >>> [event.type for event in reader.read({"type": "response.created", "response": {"id": "r1"}})]
    ['turn_started']
    """

    def __init__(self) -> None:
        self._calls = _Recent()
        self._begun = _Recent()
        # Calls whose arguments are written, by item: of a response that is cut off they are nothing.
        self._written = _Few()
        self._previous = _Recent()
        self._items = _Recent()
        self._ended = _Recent()
        self._hosted = HostedEnds()
        #: Settings that were sent: a response that begins before they are confirmed has those of before.
        self.settings = SentSettings()

    def knows(self, call_id: str) -> bool:
        """Return whether a call was made on this connection."""
        return call_id in self._calls

    def read(self, event: Wire) -> list[ev.RealtimeModelEvent]:
        """Return what an event tells, in its order."""
        kind = cast("str", event["type"])
        told: list[ev.RealtimeModelEvent] = [*self._hosted.read(event)]
        reading = self._READERS.get(kind)
        if reading is None:
            return told if kind in _SAID_ELSEWHERE else [ev.RealtimeModelOtherEvent(event)]
        try:
            told.extend(reading(self, event))
        except Malformed as error:
            told.append(malformed(error, kind))
        return told

    # Errors and responses.

    def _error(self, event: Wire) -> Events:
        told = mapping(event, "error")
        named = {name: told[name] for name in ("code", "param", "event_id") if isinstance(told.get(name), str)}
        self.settings.failed(named.get("event_id"))
        kind = told.get("type")
        yield ev.RealtimeModelErrorEvent(
            RealtimeServerError(text(told, "message"), kind if isinstance(kind, str) else "error", **named)
        )

    def _began(self, event: Wire) -> Events:
        name = _name(mapping(event, "response"))
        yield ev.RealtimeModelTurnStartedEvent(response_id=name, settings_pending=self.settings.pending)

    def _confirmed(self, _event: Wire) -> Events:
        self.settings.confirmed()
        return ()

    def _finished(self, event: Wire) -> Events:
        response = mapping(event, "response")
        name = _name(response)
        if name is not None:
            if name in self._ended:
                return
            self._ended[name] = None
        whole = response.get("status", "completed") == "completed"
        if whole:
            yield from self._untold(response)
        for item, (of, call) in list(self._written.items()):
            if of == name:
                del self._written[item]
                if whole and call["call_id"] not in self._calls:
                    yield from self._call(call, of)
        if (failure := failure_of(response)) is not None:
            yield ev.RealtimeModelErrorEvent(RealtimeServerError(*failure))
        usage = usage_of(response.get("usage"))
        if usage is not None:
            yield usage
        yield ev.RealtimeModelTurnEndedEvent(response_id=name)

    def _untold(self, response: Wire) -> Events:
        """Tell of calls whose own events were lost."""
        output = response.get("output")
        for item in cast("list[Any]", output) if isinstance(output, list) else []:
            kind: Any = cast("Wire", item).get("type") if isinstance(item, dict) else None
            ended = {"function_call": self._ended_call, "mcp_approval_request": self._ended_approval}.get(kind)
            if ended is None:
                continue
            try:
                yield from ended(cast("Wire", item), _name(response))
            except Malformed as error:
                yield malformed(error, "response.done")

    # What the model says.

    def _audio(self, event: Wire) -> Events:
        try:
            data = base64.b64decode(text(event, "delta"), validate=True)
        except (binascii.Error, ValueError):
            raise Malformed("delta is not base64") from None
        yield ev.RealtimeModelAudioEvent(
            data, text(event, "response_id"), text(event, "item_id"), whole(event, "content_index")
        )

    def _audio_done(self, event: Wire) -> Events:
        yield ev.RealtimeModelAudioDoneEvent(text(event, "item_id"), whole(event, "content_index"))

    def _transcript(self, event: Wire) -> Events:
        yield ev.RealtimeModelTranscriptDeltaEvent(
            text(event, "item_id"), text(event, "delta"), text(event, "response_id")
        )

    def _text(self, event: Wire) -> Events:
        yield ev.RealtimeModelOutputTextDeltaEvent(
            text(event, "item_id"), text(event, "delta"), text(event, "response_id")
        )

    # What the user says.

    def _transcribed(self, event: Wire) -> Events:
        yield ev.RealtimeModelInputAudioTranscriptionCompletedEvent(text(event, "item_id"), text(event, "transcript"))

    def _silence(self, event: Wire) -> Events:
        yield ev.RealtimeModelInputAudioTimeoutTriggeredEvent(
            text(event, "item_id"), whole(event, "audio_start_ms"), whole(event, "audio_end_ms")
        )

    # Items.

    def _item(self, event: Wire) -> Events:
        item = mapping(event, "item")
        previous = event.get("previous_item_id")
        name = item.get("id")
        if isinstance(name, str) and isinstance(previous, str):
            self._previous[name] = previous
        kind = item.get("type")
        if kind == "message":
            yield from self._message(event, item)
        elif kind == "mcp_approval_request" and not str(event.get("type")).endswith(".added"):
            yield from self._ended_approval(item, _response_of(event))  # as it begins it has no arguments

    def _message(self, event: Wire, item: Wire) -> Events:
        name = text(item, "id")
        message = message_of(item, self._previous.get(name))
        if message is None:
            yield ev.RealtimeModelOtherEvent(event)
            return
        # The server tells of an item up to four times; what is as it was is not told again.
        state = hash(message.model_dump_json())
        if self._items.get(name) != state:
            self._items[name] = state
            yield ev.RealtimeModelItemUpdatedEvent(message)

    def _output_added(self, event: Wire) -> Events:
        item = mapping(event, "item")
        if item.get("type") == "function_call" and isinstance(item.get("id"), str):
            named = {name: item.get(name) for name in ("name", "call_id")}
            if len(str(named)) <= _NAMES:
                self._begun[item["id"]] = named
        yield from self._item(event)

    def _output_done(self, event: Wire) -> Events:
        item = mapping(event, "item")
        if item.get("type") != "function_call":
            yield from self._item(event)
        else:
            yield from self._ended_call(item, _response_of(event))

    def _deleted(self, event: Wire) -> Events:
        yield ev.RealtimeModelItemDeletedEvent(text(event, "item_id"))

    # Calls.

    def _arguments(self, event: Wire) -> Events:
        name = event.get("item_id")
        begun: Wire = self._begun.get(name, {}) if isinstance(name, str) else {}
        # Who does not say the tool's name here has said it when the call began.
        call = {
            "id": name,
            "name": event.get("name", begun.get("name")),
            "call_id": event.get("call_id", begun.get("call_id")),
            "arguments": event.get("arguments"),
        }
        _told(call)
        # A response that is cut off tells this, too: it is a call once its item or its response is complete.
        self._written[str(name)] = (_response_of(event), call)
        return ()

    def _ended_call(self, item: Wire, response: str | None) -> Events:
        self._written.pop(str(item.get("id")), None)
        # What was cut off has half of its arguments, and they may even be whole JSON.
        return self._call(item, response) if item.get("status", "completed") == "completed" else ()

    def _call(self, item: Wire, response: str | None) -> Iterator[ev.RealtimeModelEvent]:
        call_id, tool, arguments = _told(item)
        first = self._calls.get(call_id)
        if first is not None:
            if first != hash((tool, arguments)):
                raise Malformed("a function call was told a second time, and differently; the first one counts")
            return
        self._calls[call_id] = hash((tool, arguments))
        name = item.get("id")
        own = name if isinstance(name, str) else None
        previous = self._previous.get(own) if own is not None else None
        call = ev.RealtimeModelToolCallEvent(tool, call_id, arguments, own, previous, response_id=response)
        yield call_item(call)
        yield call

    def _ended_approval(self, item: Wire, response: str | None) -> Events:
        return self._approval(item, response) if item.get("status", "completed") == "completed" else ()

    def _approval(self, item: Wire, response: str | None) -> Events:
        name = text(item, "id")
        asked = hash(tuple(text(item, field) for field in ("server_label", "name", "arguments")))
        first = self._calls.get(name)
        if first is not None:
            if first != asked:
                raise Malformed("an approval request was told a second time, and differently; the first one counts")
            return
        self._calls[name] = asked
        yield ev.RealtimeModelApprovalRequestEvent(dict(item), response_id=response)

    _READERS: ClassVar[dict[str, Callable[[ServerReader, Wire], Events]]] = {
        "error": _error,
        "session.updated": _confirmed,
        "response.created": _began,
        "response.done": _finished,
        "response.output_audio.delta": _audio,
        "response.output_audio.done": _audio_done,
        "response.output_audio_transcript.delta": _transcript,
        "response.output_text.delta": _text,
        "conversation.item.input_audio_transcription.completed": _transcribed,
        "input_audio_buffer.timeout_triggered": _silence,
        "conversation.item.added": _item,
        "conversation.item.done": _item,
        "conversation.item.created": _item,
        "conversation.item.retrieved": _item,
        "conversation.item.deleted": _deleted,
        "response.output_item.added": _output_added,
        "response.output_item.done": _output_done,
        "response.function_call_arguments.done": _arguments,
    }


def _told(call: Wire) -> tuple[str, str, str]:
    """Return the id, the tool and the arguments of a call."""
    call_id = text(call, "call_id")
    tool = text(call, "name")
    arguments = text(call, "arguments")
    if not call_id or not tool:
        raise Malformed("a function call must have a call_id and a name")
    return call_id, tool, arguments


def _response_of(event: Wire) -> str | None:
    """Return the id of the response that an event is of."""
    name = event.get("response_id")
    return name if isinstance(name, str) else None


def _name(response: Wire) -> str | None:
    name = response.get("id")
    return name if isinstance(name, str) else None


# Kinds that are known and that nobody needs to hear of besides the raw event: what they say is said by others, too.
_SAID_ELSEWHERE = frozenset(
    {
        "session.created",
        "conversation.created",
        "conversation.item.truncated",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.failed",
        "conversation.item.input_audio_transcription.segment",
        "input_audio_buffer.cleared",
        "input_audio_buffer.committed",
        "input_audio_buffer.dtmf_event_received",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "output_audio_buffer.started",
        "output_audio_buffer.stopped",
        "output_audio_buffer.cleared",
        "rate_limits.updated",
        "response.output_audio_transcript.done",
        "response.output_text.done",
        "response.content_part.added",
        "response.content_part.done",
        "response.function_call_arguments.delta",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "mcp_list_tools.failed",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
    }
)
