"""OpenAI's realtime models over a websocket: one task reads, `send_event` writes, and nothing is buffered in between.

The parts: `openai_socket` is the line, `openai_reading` and `openai_writing` its two directions, `openai_turns` says
when a response may be asked for, `openai_voice` what has been heard. Here they are put together for each connection.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlencode

from ..core.errors import UserError
from ..core.settable import Sealed
from ..support.user_code import answer_of
from . import model_events as ev
from .items import own_part
from .model import RealtimeDisconnected, RealtimeModel, RealtimeModelConfig, RealtimeModelListener, get_api_key
from .model_inputs import (
    RealtimeModelSendAudio,
    RealtimeModelSendEvent,
    RealtimeModelSendInterrupt,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
)
from .openai_items import Malformed
from .openai_reading import ServerReader, call_item, malformed, parse
from .openai_session import DEFAULT_MODEL_SETTINGS, DEFAULT_REALTIME_MODEL, session_of
from .openai_socket import OpenAISocket, TransportConfig, check_transport
from .openai_turns import ResponseTurns
from .openai_voice import Voice
from .openai_writing import (
    audio_messages,
    call_message,
    cancellation,
    raw_message,
    tool_output,
    truncation,
    user_message,
)

_ADDRESS = "wss://api.openai.com/v1/realtime"
_KEYLESS = (
    "OpenAI's realtime API needs a key: set OPENAI_API_KEY, call set_default_openai_key(), or give api_key or headers "
    "in the model's config"
)
# How long a listener may take to hear an event when the connection is closed.
_PATIENCE = 5.0
_OPTIONS = frozenset(RealtimeModelConfig.__annotations__)

log = logging.getLogger("keyturn.realtime")


class _Connection:
    """Holds what is known of one connection, and is thrown away with it."""

    def __init__(self, socket: OpenAISocket, options: RealtimeModelConfig) -> None:
        self.socket = socket
        self.reader = ServerReader()
        self.turns = ResponseTurns()
        self.voice = Voice(options.get("playback_tracker"), time.monotonic)
        self.settings: dict[str, Any] = {}
        # Whether the server itself cancels its response when the user begins to speak.
        self.interrupts = True
        self.task: asyncio.Task[None] | None = None
        # Several messages of one event stay together.
        self.writing = asyncio.Lock()
        self.closing = False
        # Calls that were put into the conversation from here.
        self.calls: set[str] = set()

    def settle(self, settings: Mapping[str, Any], session: Mapping[str, Any]) -> None:
        """Note settings that were sent, in our words and in the wire's."""
        self.settings |= settings
        audio: Any = session.get("audio", {})
        if "format" in audio.get("output", {}):
            self.voice.set_format(audio["output"]["format"])
        self.note(session)

    def update(self, session: Mapping[str, Any], *, agents: bool) -> dict[str, Any]:
        """Return the message that is about to change settings: those of an agent, or what all agents share."""
        return self.reader.settings.stamped({"type": "session.update", "session": session}, agents=agents)

    def note(self, session: Any) -> None:
        """Note what a session says of interruptions, be it ours or the server's."""
        with suppress(AttributeError, KeyError, TypeError):  # a session of another shape says nothing of them
            detection = session["audio"]["input"]["turn_detection"]
            self.interrupts = detection is not None and detection.get("interrupt_response") is not False


class OpenAIRealtimeWebSocketModel(RealtimeModel, Sealed):
    """Connects a session with OpenAI's realtime API.

    `send_event` raises `RealtimeDisconnected` where a message did not get out. When a connection has ended `connect`
    may be called again: it begins a new conversation on the provider's side.

    >>> OpenAIRealtimeWebSocketModel(transport_config={"ping_interval": 20.0}).connected
    False
    """

    #: The model that is connected where no settings name one.
    model = DEFAULT_REALTIME_MODEL

    def __init__(self, *, transport_config: TransportConfig | None = None) -> None:
        self._transport = check_transport(transport_config)
        self._listeners: list[RealtimeModelListener] = []
        self._connection: _Connection | None = None
        self._connecting = False

    @property
    def connected(self) -> bool:
        """Return whether there is a connection."""
        return self._connection is not None

    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Tell this listener every event from now on, each once."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Tell this listener nothing more."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Open a connection and send the initial settings."""
        last = self._connection
        if last is not None and last.socket.ended:
            # Whoever is connecting has noticed it before the reader has.
            await self._ended(last, None)
        if self._connection is not None or self._connecting:
            raise UserError("the realtime model is connected already: close it first")
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise UserError(f"the model's config has no {sorted(unknown)}; it has {sorted(_OPTIONS)}")
        options = cast("RealtimeModelConfig", {name: value for name, value in options.items() if value is not None})
        settings = {**DEFAULT_MODEL_SETTINGS, **options.get("initial_model_settings", {})}
        settings.setdefault("model_name", DEFAULT_REALTIME_MODEL)
        session = session_of(settings)
        self._connecting = True
        try:
            headers = await self._headers(options)
            await self._tell(ev.RealtimeModelConnectionStatusEvent("connecting"))
            socket = await OpenAISocket.open(self._url(options, settings), headers, self._transport)
            connection = _Connection(socket, options)
            try:
                connection.settle(settings, session)
                await socket.send(connection.update(session, agents=True))
            except BaseException:
                await socket.close()
                raise
            self._connection = connection
        finally:
            self._connecting = False
        try:
            await self._tell(ev.RealtimeModelConnectionStatusEvent("connected"))
        except BaseException:  # whoever connects was cancelled: a connection that nobody reads would stay
            await self.close()
            raise
        connection.task = asyncio.create_task(self._read(connection), name="keyturn realtime reader")

    def _url(self, options: RealtimeModelConfig, settings: Mapping[str, Any]) -> str:
        url = options.get("url")
        if url is not None:
            return url
        query = {"call_id": options["call_id"]} if "call_id" in options else {"model": settings["model_name"]}
        return f"{_ADDRESS}?{urlencode(query)}"

    async def _headers(self, options: RealtimeModelConfig) -> dict[str, str]:
        if "headers" in options:
            return options["headers"]
        key = await get_api_key(options.get("api_key"))
        if not key:
            raise UserError(_KEYLESS)
        return {"Authorization": f"Bearer {key}"}

    async def close(self) -> None:
        """End the connection; listeners are told "disconnected" before this returns."""
        connection = self._connection
        if connection is None or connection.closing:
            return
        connection.closing = True
        self._connection = None
        task = connection.task
        mine = task is asyncio.current_task()
        await connection.socket.close(unread=mine)
        if task is not None and not mine:
            # It ends by itself when the listener it is telling something has heard it.
            await asyncio.wait({task}, timeout=_PATIENCE)
            task.cancel()
            await asyncio.wait({task})
        await self._tell(ev.RealtimeModelConnectionStatusEvent("disconnected"))

    # Sending.

    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        """Hand an event to the provider; raise `RealtimeDisconnected` where it did not get out."""
        await self._send(event, None)

    async def send_event_if(self, event: RealtimeModelSendEvent, send_if: Callable[[], bool]) -> bool:
        """Hand an event over only if `send_if` says so when it is its turn; return whether it was."""
        return await self._send(event, send_if)

    async def _send(self, event: RealtimeModelSendEvent, send_if: Callable[[], bool] | None) -> bool:
        sender = next((_SENDERS[kind] for kind in type(event).__mro__ if kind in _SENDERS), None)
        if sender is None:
            raise UserError(f"a realtime model cannot be sent a {type(event).__name__}: see RealtimeModelSendEvent")
        connection = self._connection
        if connection is None:
            raise RealtimeDisconnected("the realtime model is not connected: connect it, then send this again")
        async with connection.writing:
            if send_if is not None and not send_if():
                return False
            told = await sender(connection, event)
        if told is not None:
            await self._tell(told)
        return True

    # Reading.

    async def _read(self, connection: _Connection) -> None:
        broken: Exception | None = None
        try:
            async for frame in connection.socket.frames():
                if not connection.closing:
                    await self._frame(connection, frame)
        except Exception as error:  # whatever it is, the session hears of it and of the end of the connection
            broken = error
        await self._ended(connection, broken)

    async def _ended(self, connection: _Connection, broken: Exception | None) -> None:
        if connection.closing:
            return
        connection.closing = True
        if self._connection is connection:
            self._connection = None
        await connection.socket.close(unread=True)
        if broken is not None:
            await self._tell(ev.RealtimeModelExceptionEvent(broken, "the connection to the realtime model broke"))
        if self._connection is None and not self._connecting:  # else there is another one, which has not ended
            await self._tell(ev.RealtimeModelConnectionStatusEvent("disconnected"))

    async def _frame(self, connection: _Connection, frame: str | bytes) -> None:
        try:
            event = parse(frame)
        except Malformed as error:
            await self._tell(malformed(error))
            return
        await self._tell(ev.RealtimeModelRawServerEvent(event))
        handled = connection.turns.hear(event)
        kind = event["type"]
        if kind in ("session.created", "session.updated"):
            connection.note(event.get("session"))
        elif kind == "input_audio_buffer.speech_started" and connection.interrupts:
            # The server cancels the response itself, and does not know what was heard of it.
            await self._send_on(connection, RealtimeModelSendInterrupt(playback_only=True))
        elif kind == "conversation.item.truncated" and isinstance(event.get("item_id"), str):
            # What was not heard is not in its transcript any more.
            async with connection.writing:
                await connection.socket.send({"type": "conversation.item.retrieve", "item_id": event["item_id"]})
        for told in () if handled else connection.reader.read(event):
            if isinstance(told, ev.RealtimeModelAudioEvent):
                if not connection.voice.hear((told.item_id, told.content_index), len(told.data)):
                    continue
            elif isinstance(told, ev.RealtimeModelAudioDoneEvent):
                connection.voice.finish((told.item_id, told.content_index))
            await self._tell(told)
        if connection.turns.ready:  # a sender that waits for the line must not keep the reader waiting
            async with connection.writing:
                await _respond(connection)

    async def _send_on(self, connection: _Connection, event: RealtimeModelSendInterrupt) -> None:
        async with connection.writing:
            told = await _interrupt(connection, event)
        if told is not None:
            await self._tell(told)

    async def _tell(self, event: ev.RealtimeModelEvent) -> None:
        for listener in tuple(self._listeners):
            try:
                await answer_of(listener.on_event, own_part(event))  # one that edits it changes what no other hears
            except Exception:  # a listener's mistake must not keep the others, and the connection, from going on
                log.exception("a listener of the realtime model failed on an event of type %r", event.type)


# What each kind of event sends; what is returned is told to the listeners when the line is free again.


async def _respond(connection: _Connection) -> None:
    message = connection.turns.next()
    if message is not None:
        await connection.socket.send(message)


async def _user_input(connection: _Connection, event: RealtimeModelSendUserInput) -> None:
    await connection.socket.send(user_message(event.user_input))
    connection.turns.want({})
    await _respond(connection)


async def _audio(connection: _Connection, event: RealtimeModelSendAudio) -> None:
    for message in audio_messages(event):
        await connection.socket.send(message)


async def _tool_output(connection: _Connection, event: RealtimeModelSendToolOutput) -> ev.RealtimeModelEvent:
    answer = tool_output(event)
    call = event.tool_call
    if not connection.reader.knows(call.call_id) and call.call_id not in connection.calls:
        # It was made on an older connection. The server takes no result of a call that is not in its conversation.
        connection.calls.add(call.call_id)
        await connection.socket.send(call_message(call))
    await connection.socket.send(answer)
    if event.start_response:
        connection.turns.want({})
        await _respond(connection)
    return call_item(event.tool_call, event.output)


async def _interrupt(connection: _Connection, event: RealtimeModelSendInterrupt) -> ev.RealtimeModelEvent | None:
    turns = connection.turns
    cut = None if event.cancel_response_only else connection.voice.cut()
    if not event.playback_only:
        meant = turns.busy and event.response_id in (None, turns.active)
        if meant or event.force_response_cancel:
            await connection.socket.send(cancellation(event.response_id or turns.active))
    if cut is None:
        return None
    if cut.heard_ms is not None:
        await connection.socket.send(truncation(cut.item_id, cut.content_index, cut.heard_ms))
    return ev.RealtimeModelAudioInterruptedEvent(cut.item_id, cut.content_index)


async def _session_update(connection: _Connection, event: RealtimeModelSendSessionUpdate) -> None:
    changes: dict[str, Any] = dict(event.session_settings)
    of_agent = "tools" in changes or "handoffs" in changes
    if of_agent:
        # The wire has one list for both.
        changes = {name: connection.settings.get(name, []) for name in ("tools", "handoffs")} | changes
    session = session_of(changes)
    if changes.get("model_name") == connection.settings.get("model_name"):
        session.pop("model", None)
    await connection.socket.send(connection.update(session, agents=of_agent))
    connection.settle(changes, session)


async def _raw(connection: _Connection, event: RealtimeModelSendRawMessage) -> None:
    message = raw_message(event)
    response: Any = message.get("response")
    apart = isinstance(response, Mapping) and cast("Mapping[str, Any]", response).get("conversation") == "none"
    item: Any = message.get("item")
    if isinstance(item, Mapping) and cast("Mapping[str, Any]", item).get("type") == "function_call":
        connection.calls.add(str(cast("Mapping[str, Any]", item).get("call_id")))
    if message["type"] == "session.update":
        message = connection.reader.settings.stamped(message, agents=False)
    if message["type"] != "response.create" or apart:
        await connection.socket.send(message)
        return
    connection.turns.want({name: value for name, value in message.items() if name != "type"})
    await _respond(connection)


_SENDERS: dict[type[Any], Callable[[_Connection, Any], Awaitable[ev.RealtimeModelEvent | None]]] = {
    RealtimeModelSendUserInput: _user_input,
    RealtimeModelSendAudio: _audio,
    RealtimeModelSendToolOutput: _tool_output,
    RealtimeModelSendInterrupt: _interrupt,
    RealtimeModelSendSessionUpdate: _session_update,
    RealtimeModelSendRawMessage: _raw,
}
