"""Play one turn of a script as one response: the protocol's events, in the order in which the real server has them.

A response puts its items into the conversation as it goes. If it is cut off, its open item is incomplete.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Protocol

from .realtime_script import (
    AskApproval,
    Call,
    Event,
    Frame,
    Gate,
    HangUp,
    Say,
    ServerError,
    SessionExpires,
    Turn,
    UserSpeaks,
    Write,
    tone,
)

Item = dict[str, Any]

_USAGE: dict[str, Any] = {
    "total_tokens": 30,
    "input_tokens": 20,
    "output_tokens": 10,
    "input_token_details": {
        "text_tokens": 15,
        "audio_tokens": 5,
        "image_tokens": 0,
        "cached_tokens": 4,
        "cached_tokens_details": {"text_tokens": 4, "audio_tokens": 0, "image_tokens": 0},
    },
    "output_token_details": {"text_tokens": 6, "audio_tokens": 4},
}


class Cancelled(Exception):
    """Ends a response before its time; the reason is "turn_detected" or "client_cancelled"."""


class ResponseLine(Protocol):
    """What a response needs of its connection."""

    conversation_id: str
    session: dict[str, Any]

    def new_id(self, prefix: str) -> str:
        """Return an id that nothing else has."""
        ...

    def keep(self, item: Item, after: str | None = None) -> str | None:
        """Put an item into the conversation and return the id of the one before it."""
        ...

    def before(self, item_id: str) -> str | None:
        """Return the id of the item before an item."""
        ...

    async def tell(self, kind: str, **fields: Any) -> None:
        """Send an event of the protocol."""
        ...

    async def send_as_is(self, data: object) -> None:
        """Send a frame, or an event whatever the protocol says of it."""
        ...

    async def hang_up(self, code: int, reason: str, *, abrupt: bool) -> None:
        """End the connection."""
        ...

    async def speech_begins(self, response: Response | None) -> None:
        """Say that the user begins to speak."""
        ...


class Response:
    """Plays one turn."""

    def __init__(self, line: ResponseLine, turn: Turn, wish: Mapping[str, Any]) -> None:
        self.id = line.new_id("resp")
        self.turn = turn
        self.cancelled: str | None = None
        self._cancelling = asyncio.Event()
        self._line = line
        self._wish = wish
        self._apart = wish.get("conversation") == "none"
        self._output: list[Item] = []
        self._open: Item | None = None

    def cancel(self, reason: str) -> None:
        """Cut the response off, at its next event or at the gate that it stands before."""
        self.cancelled = reason
        self._cancelling.set()

    async def play(self) -> None:
        """Send everything, from `response.created` to `response.done`."""
        await self._line.tell("response.created", response=self._state("in_progress"))
        try:
            for part in self.turn.parts:
                self._go_on()
                await self._PLAYERS[type(part)](self, part)
            self._go_on()
        except Cancelled:
            await self._cut_off()
        status = "cancelled" if self.cancelled else self.turn.status
        await self._line.tell("response.done", response=self._state(status))

    def _state(self, status: str) -> Item:
        done = status != "in_progress"
        details = {"type": "cancelled", "reason": self.cancelled} if self.cancelled else None
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": [dict(item) for item in self._output],
            "conversation_id": None if self._apart else self._line.conversation_id,
            "output_modalities": self._line.session.get("output_modalities", ["audio"]),
            "max_output_tokens": "inf",
            "usage": dict(self.turn.usage or _USAGE) if done else None,
            "metadata": self._wish.get("metadata"),
        }

    def _go_on(self) -> None:
        if self.cancelled:
            raise Cancelled

    async def _tell(self, kind: str, **fields: Any) -> None:
        self._go_on()
        await self._line.tell(kind, response_id=self.id, **fields)

    # Items: opened, filled, closed.

    async def _opened(self, item: Item) -> tuple[Item, int]:
        number = len(self._output)
        self._output.append(item)
        self._open = item
        await self._tell("response.output_item.added", output_index=number, item=dict(item))
        if not self._apart:
            previous = self._line.keep(item)
            await self._line.tell("conversation.item.added", previous_item_id=previous, item=dict(item))
        return item, number

    async def _closed(self, item: Item, status: str = "completed") -> None:
        if "status" in item:
            item["status"] = status
        self._open = None
        number = self._output.index(item)
        await self._line.tell("response.output_item.done", response_id=self.id, output_index=number, item=dict(item))
        if not self._apart:
            before = self._line.before(item["id"])
            await self._line.tell("conversation.item.done", previous_item_id=before, item=dict(item))

    async def _cut_off(self) -> None:
        if self._open is not None:
            await self._closed(self._open, "incomplete")

    async def _message(self, part: Item) -> tuple[Item, dict[str, Any]]:
        item: Item = {
            "id": self._line.new_id("item"),
            "object": "realtime.item",
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }
        _, number = await self._opened(item)
        where: Item = {"item_id": item["id"], "output_index": number, "content_index": 0}
        await self._tell("response.content_part.added", part=part, **where)
        return item, where

    async def _say(self, part: Say) -> None:
        item, where = await self._message({"type": "audio", "transcript": ""})
        content: Item = {"type": "output_audio", "transcript": ""}
        item["content"] = [content]
        for number, word in enumerate(part.text.split(" ")):
            delta = word if number == 0 else f" {word}"
            await self._tell("response.output_audio_transcript.delta", delta=delta, **where)
            content["transcript"] += delta
            audio = base64.b64encode(tone(part.word_ms)).decode("ascii")
            await self._tell("response.output_audio.delta", delta=audio, **where)
        await self._tell("response.output_audio.done", **where)
        await self._tell("response.output_audio_transcript.done", transcript=part.text, **where)
        await self._tell("response.content_part.done", part={"type": "audio", "transcript": part.text}, **where)
        await self._closed(item)

    async def _write(self, part: Write) -> None:
        item, where = await self._message({"type": "text", "text": ""})
        content: Item = {"type": "output_text", "text": ""}
        item["content"] = [content]
        for number, word in enumerate(part.text.split(" ")):
            delta = word if number == 0 else f" {word}"
            await self._tell("response.output_text.delta", delta=delta, **where)
            content["text"] += delta
        await self._tell("response.output_text.done", text=part.text, **where)
        await self._tell("response.content_part.done", part={"type": "text", "text": part.text}, **where)
        await self._closed(item)

    async def _call(self, part: Call) -> None:
        item: Item = {
            "id": self._line.new_id("item"),
            "object": "realtime.item",
            "type": "function_call",
            "status": "in_progress",
            "name": part.name,
            "call_id": part.call_id or self._line.new_id("call"),
            "arguments": "",
        }
        _, number = await self._opened(item)
        where = {"item_id": item["id"], "output_index": number, "call_id": item["call_id"]}
        whole = part.text()
        half = max(1, len(whole) // 2)
        for piece in [whole[:half]] if part.cut_off else [whole[:half], whole[half:]]:
            await self._tell("response.function_call_arguments.delta", delta=piece, **where)
            item["arguments"] += piece
        if part.cut_off:
            await self._closed(item, "incomplete")
            return
        await self._tell("response.function_call_arguments.done", arguments=whole, name=part.name, **where)
        await self._closed(item)

    async def _approval(self, part: AskApproval) -> None:
        item: Item = {
            "id": part.id or self._line.new_id("mcpr"),
            "type": "mcp_approval_request",
            "server_label": part.server_label,
            "name": part.name,
            "arguments": part.arguments,
        }
        await self._opened(item)
        await self._closed(item)

    # What is said by nobody.

    async def _wait(self, gate: Gate) -> None:
        waits = [asyncio.ensure_future(gate.passed()), asyncio.ensure_future(self._cancelling.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _event(self, part: Event) -> None:
        await self._line.send_as_is(dict(part.event))

    async def _frame(self, part: Frame) -> None:
        await self._line.send_as_is(part.data)

    async def _error(self, part: ServerError) -> None:
        await self._line.tell("error", error={"message": part.message, "type": part.type, "code": part.code})

    async def _hang_up(self, part: HangUp) -> None:
        await self._line.hang_up(part.code, part.reason, abrupt=part.abrupt)

    async def _expire(self, _part: SessionExpires) -> None:
        text = "Your session hit the maximum duration of 60 minutes."
        error = {"message": text, "type": "invalid_request_error", "code": "session_expired"}
        await self._line.tell("error", error=error)
        await self._line.hang_up(1001, "session expired", abrupt=False)

    async def _user_speaks(self, _part: UserSpeaks) -> None:
        await self._line.speech_begins(self)

    _PLAYERS: ClassVar[dict[type[Any], Callable[[Response, Any], Awaitable[None]]]] = {
        Say: _say,
        Write: _write,
        Call: _call,
        AskApproval: _approval,
        Gate: _wait,
        Event: _event,
        Frame: _frame,
        ServerError: _error,
        HangUp: _hang_up,
        SessionExpires: _expire,
        UserSpeaks: _user_speaks,
    }
