"""What the user says to a realtime server: appended audio, and the turn detection that listens to it.

Loud samples are speech, and half a second of silence after them, or what the session says, is the end of it.
"""

from __future__ import annotations

from typing import Any, Protocol

_LOUD = 500
_SILENCE_MS = 500


class EarListener(Protocol):
    """What the ear needs of its connection."""

    session: dict[str, Any]
    heard: list[str]
    response: Any

    def new_id(self, prefix: str) -> str:
        """Return an id that nothing else has."""
        ...

    def keep(self, item: dict[str, Any], after: str | None = None) -> str | None:
        """Put an item into the conversation and return the id of the one before it."""
        ...

    async def tell(self, kind: str, **fields: Any) -> None:
        """Send an event of the protocol."""
        ...

    async def respond(self) -> None:
        """Begin a response."""
        ...


class Ear:
    """Listens to one connection."""

    def __init__(self, line: EarListener) -> None:
        self.buffer = bytearray()
        self.received = 0
        self._line = line
        self._speaks: str | None = None
        self._quiet_ms = 0.0

    @property
    def _detection(self) -> dict[str, Any] | None:
        return self._line.session["audio"]["input"]["turn_detection"]

    async def hear(self, audio: bytes) -> None:
        """Take more audio, and notice where speech begins and ends."""
        self.buffer += audio
        self.received += len(audio)
        detection = self._detection
        if detection is None:
            return
        loud = any(abs(sample) >= _LOUD for sample in memoryview(audio[: len(audio) // 2 * 2]).cast("h"))
        if loud:
            self._quiet_ms = 0.0
            if self._speaks is None:
                await self.begin()
        elif self._speaks is not None:
            self._quiet_ms += len(audio) / 48
            if self._quiet_ms >= (detection.get("silence_duration_ms") or _SILENCE_MS):
                await self.stop()

    async def begin(self) -> None:
        """Say that speech has begun; the response under way is cancelled where the session says so."""
        self._speaks = self._line.new_id("item")
        await self._line.tell(
            "input_audio_buffer.speech_started", item_id=self._speaks, audio_start_ms=self.received // 48
        )
        detection = self._detection
        if detection is not None and detection.get("interrupt_response") is not False and self._line.response:
            self._line.response.cancel("turn_detected")

    async def stop(self) -> None:
        """Say that speech has ended, commit it, and respond where the session says so."""
        detection = self._detection or {}
        item_id = self._speaks or self._line.new_id("item")
        await self._line.tell("input_audio_buffer.speech_stopped", item_id=item_id, audio_end_ms=self.received // 48)
        await self.commit(item_id)
        if detection.get("create_response") is not False and self._line.response is None:
            await self._line.respond()

    async def commit(self, item_id: str | None = None) -> None:
        """Make what was heard an item of the conversation."""
        name = item_id or self._speaks or self._line.new_id("item")
        self.clear()
        item: dict[str, Any] = {
            "id": name,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": None}],
        }
        previous = self._line.keep(item)
        await self._line.tell("input_audio_buffer.committed", item_id=name, previous_item_id=previous)
        await self._line.tell("conversation.item.added", previous_item_id=previous, item=item)
        await self._line.tell("conversation.item.done", previous_item_id=previous, item=item)
        if self._line.session["audio"]["input"].get("transcription") is not None:
            await self._transcribe(name, item)

    async def _transcribe(self, name: str, item: dict[str, Any]) -> None:
        text = self._line.heard.pop(0) if self._line.heard else "..."
        item["content"][0]["transcript"] = text
        where = {"item_id": name, "content_index": 0}
        await self._line.tell("conversation.item.input_audio_transcription.delta", delta=text, **where)
        await self._line.tell(
            "conversation.item.input_audio_transcription.completed",
            transcript=text,
            usage={"type": "duration", "seconds": 1.0},
            **where,
        )

    def clear(self) -> None:
        """Forget what was appended."""
        self.buffer.clear()
        self._speaks = None
        self._quiet_ms = 0.0
