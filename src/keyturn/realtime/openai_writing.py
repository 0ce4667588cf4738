"""Convert what a session sends to client messages of OpenAI's realtime protocol; nothing is sent here.

A wrong input is refused with the name of what is wrong, before anything of it is on the wire.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ..core.errors import UserError
from .model_events import RealtimeModelToolCallEvent
from .model_inputs import RealtimeModelSendAudio, RealtimeModelSendRawMessage, RealtimeModelSendToolOutput

Message = dict[str, Any]

# The provider takes 15 MiB in one message; small pieces let other messages in between, and are whole samples.
_PIECE = 256 * 1024


def user_message(given: object) -> Message:
    """Return the message that puts a user's words into the conversation.

    >>> user_message("hi")["item"]["content"]
    [{'type': 'input_text', 'text': 'hi'}]
    """
    if isinstance(given, str):
        return _created({"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]})
    told: Any = given
    if not isinstance(given, Mapping) or not isinstance(told.get("content"), list):
        raise UserError(
            "user_input must be a text, or a message: {'type': 'message', 'role': 'user', 'content': [...]}"
        )
    if told.get("role", "user") != "user":
        raise UserError(f"user_input is a message of the user: its role cannot be {told['role']!r}")
    return _created({"type": "message", "role": "user", "content": [_content(part) for part in told["content"]]})


def _content(part: object) -> Message:
    told: Mapping[str, Any] = cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else {}
    kind = told.get("type")
    field = {"input_text": "text", "input_image": "image_url"}.get(kind) if isinstance(kind, str) else None
    if field is None or not isinstance(told.get(field), str):
        raise UserError(
            "user_input: each part of its content is {'type': 'input_text', 'text': ...} or "
            f"{{'type': 'input_image', 'image_url': ...}}, not one of type {kind!r} without its text"
        )
    more = {"detail": told["detail"]} if kind == "input_image" and told.get("detail") is not None else {}
    return {"type": kind, field: told[field], **more}


def audio_messages(event: RealtimeModelSendAudio) -> Iterator[Message]:
    """Return the messages that append audio, piece by piece, and commit it where that is asked for."""
    audio: Any = event.audio
    if not isinstance(audio, bytes | bytearray | memoryview):
        raise UserError(f"audio must be bytes, not {type(audio).__name__}")
    whole = bytes(cast("Any", audio))
    for start in range(0, len(whole), _PIECE):
        piece = whole[start : start + _PIECE]
        yield {"type": "input_audio_buffer.append", "audio": base64.b64encode(piece).decode("ascii")}
    if event.commit:
        yield {"type": "input_audio_buffer.commit"}


def tool_output(event: RealtimeModelSendToolOutput) -> Message:
    """Return the message that answers a call."""
    if not isinstance(cast("Any", event.output), str):
        raise UserError(f"output must be a text, not {type(event.output).__name__}")
    return _created({"type": "function_call_output", "call_id": event.tool_call.call_id, "output": event.output})


def call_message(call: RealtimeModelToolCallEvent) -> Message:
    """Return the message that puts a call of another connection into the conversation."""
    fields = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
    return _created({"type": "function_call", **fields})


def raw_message(event: RealtimeModelSendRawMessage) -> Message:
    """Return a message in the provider's own words."""
    given: Any = event.message
    message: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    if not isinstance(message.get("type"), str):
        raise UserError("message must be {'type': ..., 'other_data': {...}}")
    other: Any = message.get("other_data") or {}
    if not isinstance(other, Mapping):
        raise UserError(f"message: other_data must be a dict, not {type(other).__name__}")
    unknown = sorted(message.keys() - {"type", "other_data"})
    if unknown:
        raise UserError(f"message: fields other than its type belong into other_data, and {unknown} do not stand there")
    made: Message = {**cast("Mapping[str, Any]", other), "type": message["type"]}
    try:
        json.dumps(made, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"message: other_data cannot be written as JSON: {error}") from error
    return made


def truncation(item_id: str, content_index: int, played_ms: float) -> Message:
    """Return the message that says how much of the model's voice was heard."""
    return {
        "type": "conversation.item.truncate",
        "item_id": item_id,
        "content_index": content_index,
        "audio_end_ms": max(0, int(played_ms)),
    }


def cancellation(response_id: str | None) -> Message:
    """Return the message that cancels a response."""
    return {"type": "response.cancel"} | ({"response_id": response_id} if response_id else {})


def _created(item: Message) -> Message:
    return {"type": "conversation.item.create", "item": item}
