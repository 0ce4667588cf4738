"""One connection of a realtime server: what the client says is checked, kept and answered.

The conversation is a list of items. One response plays at a time; a cancellation is noticed at its next event.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, cast

from .realtime_ear import Ear
from .realtime_response import Item, Response
from .realtime_rules import BadClientMessage, check_client, check_server
from .realtime_script import Turn

_ACTIVE = "conversation_already_has_active_response"

NextTurn = Callable[["RealtimeLine"], Awaitable[Turn]]


class RealtimeLine:
    """Holds one connection: `messages` the client sent, `events` it was sent, `errors` among them, `items` so far.

    `outputs` has the results of function calls, `approvals` the answers to approval requests, by the id they answer.
    """

    def __init__(self, socket: Any, number: int, next_turn: NextTurn, noticed: Callable[[], None]) -> None:
        self.number = number
        self.path: str = socket.request.path
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in socket.request.headers.raw_items()}
        self.messages: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.items: list[Item] = []
        self.outputs: dict[str, list[str]] = {}
        self.approvals: dict[str, list[bool]] = {}
        self.session: dict[str, Any] = _first_session()
        self.conversation_id = f"conv_{number}"
        self.heard: list[str] = []
        self.open = True
        self.ear = Ear(self)
        self.response: Response | None = None
        self._playing: set[asyncio.Task[None]] = set()
        self._apart: list[Response] = []
        self._socket = socket
        self._next_turn = next_turn
        self._noticed = noticed
        self._count = 0
        self._collected: list[dict[str, Any]] | None = None

    # What everybody needs.

    def new_id(self, prefix: str) -> str:
        """Return an id that nothing else has on this server."""
        self._count += 1
        return f"{prefix}_{self.number}_{self._count}"

    def keep(self, item: Item, after: str | None = None) -> str | None:
        """Put an item into the conversation and return the id of the one before it."""
        place = len(self.items) if after is None else [each["id"] for each in self.items].index(after) + 1
        self.items.insert(place, item)
        return self.before(item["id"])

    def before(self, item_id: str) -> str | None:
        """Return the id of the item before an item, None where it is the first or gone."""
        ids = [item["id"] for item in self.items]
        place = ids.index(item_id) if item_id in ids else 0
        return ids[place - 1] if place else None

    async def tell(self, kind: str, **fields: Any) -> None:
        """Send an event of the protocol, checked against the package's types."""
        event = {"type": kind, "event_id": self.new_id("event"), **fields}
        check_server(event)
        if self._collected is not None and kind != "response.done":
            self._collected.append(event)
            return
        if self._collected is not None and self.response is not None:
            collected = [*self._collected, event]
            self._collected = None
            arrange = self.response.turn.arrange
            for each in arrange(collected) if arrange is not None else collected:
                await self._write(each)
            return
        await self._write(event)

    async def _write(self, event: dict[str, Any]) -> None:
        twice = self.response is not None and self.response.turn.twice
        for _ in range(2 if twice else 1):
            await self.send_as_is(event)

    async def send_as_is(self, data: Any) -> None:
        """Send a frame, or an event whatever the protocol says of it."""
        if isinstance(data, dict):
            event = cast("dict[str, Any]", data)
            self.events.append(json.loads(json.dumps(event)))
            if event.get("type") == "error":
                self.errors.append(event)
            data = json.dumps(event)
        await self._socket.send(data)
        self._noticed()

    async def hang_up(self, code: int = 1000, reason: str = "", *, abrupt: bool = False) -> None:
        """End the connection; `abrupt` drops the line without a word."""
        if abrupt:
            self._socket.transport.abort()
        else:
            await self._socket.close(code, reason)
        await self._socket.wait_closed()

    async def fail(self, fault: BadClientMessage, message: Any = None) -> None:
        """Send the `error` event for a client message."""
        told: Mapping[str, Any] = cast("Mapping[str, Any]", message) if isinstance(message, Mapping) else {}
        error = {
            "message": str(fault),
            "type": "invalid_request_error",
            "code": fault.code,
            "param": fault.param,
            "event_id": told.get("event_id"),
        }
        await self.tell("error", error=error)

    # The client's messages.

    async def converse(self) -> None:
        """Answer the client until it hangs up."""
        await self.tell("session.created", session=self.session)
        async for frame in self._socket:
            message: Any = None
            try:
                message = json.loads(frame)
                if isinstance(message, dict):
                    self.messages.append(cast("dict[str, Any]", message))
                    self._noticed()
                checked = check_client(message)
                await self._HANDLERS[checked["type"]](self, checked)
            except BadClientMessage as fault:
                await self.fail(fault, message)
            except ValueError:
                await self.fail(BadClientMessage("The message is not JSON.", "invalid_json"))

    async def end(self) -> None:
        """Stop playing."""
        self.open = False
        for task in self._playing:
            task.cancel()
        await asyncio.gather(*self._playing, return_exceptions=True)
        self._noticed()

    async def _update(self, message: dict[str, Any]) -> None:
        _merge(self.session, message["session"])
        await self.tell("session.updated", session=self.session)

    async def _create_item(self, message: dict[str, Any]) -> None:
        item: Item = dict(message["item"])
        item.setdefault("id", self.new_id("item"))
        if any(each["id"] == item["id"] for each in self.items):
            raise BadClientMessage(
                f"Item with id {item['id']!r} already exists.", "item_create_duplicate_id", "item.id"
            )
        after = message.get("previous_item_id")
        if after is not None:
            self._found(after, "previous_item_id")
        self._check_answer(item)
        if item["type"] in ("message", "function_call", "function_call_output"):
            item |= {"object": "realtime.item", "status": item.get("status", "completed")}
        previous = self.keep(item, after)
        await self.tell("conversation.item.added", previous_item_id=previous, item=item)
        await self.tell("conversation.item.done", previous_item_id=previous, item=item)
        if item["type"] == "mcp_approval_response" and item["approve"]:
            await self._run_hosted(self._found(item["approval_request_id"], "item.approval_request_id"))

    async def _run_hosted(self, asked: Item) -> None:
        """Make the call that was approved, and tell how it ended."""
        made: Item = {name: asked[name] for name in ("server_label", "name", "arguments")}
        made |= {"id": self.new_id("mcp"), "type": "mcp_call", "approval_request_id": asked["id"]}
        previous = self.keep(made)
        await self.tell("conversation.item.added", previous_item_id=previous, item=made)
        made["output"] = "done"
        await self.tell("response.mcp_call.completed", item_id=made["id"], output_index=0)
        await self.tell("conversation.item.done", previous_item_id=previous, item=made)

    def _check_answer(self, item: Item) -> None:
        if item["type"] == "function_call_output":
            calls = {each.get("call_id") for each in self.items if each["type"] == "function_call"}
            if item["call_id"] not in calls:
                raise BadClientMessage(
                    f"No function call with id {item['call_id']!r}.", "invalid_value", "item.call_id"
                )
            self.outputs.setdefault(str(item["call_id"]), []).append(item["output"])
        elif item["type"] == "mcp_approval_response":
            asked = self._found(item["approval_request_id"], "item.approval_request_id")
            self.approvals.setdefault(asked["id"], []).append(item["approve"])

    def _found(self, item_id: str, param: str) -> Item:
        for item in self.items:
            if item["id"] == item_id:
                return item
        raise BadClientMessage(f"Item with id {item_id!r} does not exist.", "item_not_found", param)

    async def _delete_item(self, message: dict[str, Any]) -> None:
        self.items.remove(self._found(message["item_id"], "item_id"))
        await self.tell("conversation.item.deleted", item_id=message["item_id"])

    async def _retrieve_item(self, message: dict[str, Any]) -> None:
        await self.tell("conversation.item.retrieved", item=self._found(message["item_id"], "item_id"))

    async def _truncate(self, message: dict[str, Any]) -> None:
        item = self._found(message["item_id"], "item_id")
        index: int = message["content_index"]
        parts: list[Item] = item.get("content", [])
        if item.get("role") != "assistant" or index >= len(parts) or parts[index]["type"] != "output_audio":
            raise BadClientMessage(
                "Only the audio of an assistant's message can be truncated.", "invalid_value", "item_id"
            )
        came = self._audio_ms(message["item_id"])
        if message["audio_end_ms"] > came:
            raise BadClientMessage(
                f"Audio content of {came}ms is already shorter than {message['audio_end_ms']}ms",
                "invalid_value",
                "audio_end_ms",
            )
        where = {name: message[name] for name in ("item_id", "content_index", "audio_end_ms")}
        await self.tell("conversation.item.truncated", **where)

    def _audio_ms(self, item_id: str) -> int:
        """Return how much audio of an item was sent."""
        sent = (
            event["delta"]
            for event in self.events
            if event.get("type") == "response.output_audio.delta" and event.get("item_id") == item_id
        )
        return sum(len(base64.b64decode(each)) for each in sent) // 48

    async def _append(self, message: dict[str, Any]) -> None:
        try:
            audio = base64.b64decode(message["audio"], validate=True)
        except binascii.Error:
            raise BadClientMessage("Invalid 'audio': expected base64.", "invalid_value", "audio") from None
        await self.ear.hear(audio)

    async def _commit(self, _message: dict[str, Any]) -> None:
        if not self.ear.buffer:
            raise BadClientMessage(
                "Error committing input audio buffer: the buffer is empty.", "input_audio_buffer_commit_empty"
            )
        await self.ear.commit()

    async def _clear(self, _message: dict[str, Any]) -> None:
        self.ear.clear()
        await self.tell("input_audio_buffer.cleared")

    # Responses.

    async def _create_response(self, message: dict[str, Any]) -> None:
        wish: dict[str, Any] = message.get("response") or {}
        if self.response is not None and wish.get("conversation") != "none":
            text = f"Conversation already has an active response in progress: {self.response.id}."
            raise BadClientMessage(text, _ACTIVE)
        await self.respond(wish=wish)

    async def respond(self, turn: Turn | None = None, wish: Mapping[str, Any] | None = None) -> None:
        """Begin a response, by itself or because it was asked for: a turn, or the next one of the script."""
        response = Response(self, turn if turn is not None else await self._next_turn(self), wish or {})
        apart = (wish or {}).get("conversation") == "none"
        if not apart:
            self.response = response
        task = asyncio.create_task(self._play(response, apart=apart))
        self._playing.add(task)
        task.add_done_callback(self._playing.discard)

    async def _play(self, response: Response, *, apart: bool) -> None:
        from websockets.exceptions import ConnectionClosed

        if response.turn.arrange is not None and not apart:
            self._collected = []
        try:
            await response.play()
        except (ConnectionError, ConnectionClosed):  # the client left
            return
        except Exception as error:  # a script's mistake must reach the test
            await self.fail(BadClientMessage(f"the script: {type(error).__name__}: {error}", "script_failed"))
        finally:
            if not apart:
                self.response = None
                self._noticed()

    async def _cancel(self, message: dict[str, Any]) -> None:
        wanted = message.get("response_id")
        if self.response is None or wanted not in (None, self.response.id):
            raise BadClientMessage("Cancellation failed: no active response found", "response_cancel_not_active")
        self.response.cancel("client_cancelled")

    async def speech_begins(self, response: Response | None = None) -> None:
        """Say that the user begins to speak, and cancel the response where the session says so."""
        del response
        await self.ear.begin()

    async def _nothing(self, message: dict[str, Any]) -> None:
        raise BadClientMessage(f"{message['type']} is for WebRTC and SIP only.", "invalid_value", "type")

    _HANDLERS: ClassVar[dict[str, Callable[[RealtimeLine, dict[str, Any]], Awaitable[None]]]] = {
        "session.update": _update,
        "conversation.item.create": _create_item,
        "conversation.item.delete": _delete_item,
        "conversation.item.retrieve": _retrieve_item,
        "conversation.item.truncate": _truncate,
        "input_audio_buffer.append": _append,
        "input_audio_buffer.commit": _commit,
        "input_audio_buffer.clear": _clear,
        "output_audio_buffer.clear": _nothing,
        "response.create": _create_response,
        "response.cancel": _cancel,
    }


def _first_session() -> dict[str, Any]:
    return {
        "type": "realtime",
        "model": "gpt-realtime-2.1",
        "output_modalities": ["audio"],
        "instructions": "",
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "tracing": None,
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": {"type": "server_vad", "create_response": True, "interrupt_response": True},
            },
            "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "alloy", "speed": 1.0},
        },
    }


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, Mapping) and name in ("audio", "input", "output"):
            _merge(into.setdefault(name, {}), cast("Mapping[str, Any]", value))
        else:
            into[name] = value
