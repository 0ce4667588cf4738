"""Read a reply of Gemini, whole or in chunks, into Responses events and items.

A signature is kept on the part that it came with, so a signed part is never joined with its neighbours. A reply that
was cut inside a call, or that is no reply, is a `ModelBehaviorError`; one that was withheld is a refusal. Nothing here
asks.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

from ...core.errors import ModelBehaviorError
from ...core.items import Item
from ..base import ModelResponse, TokenDetails, Usage
from ..reading import NOTHING, ResponseFailed, charged, check_text, in_call
from ..reply_events import StreamEvent
from ..telling import ReplyEvents
from ..turns import PROVIDER_DATA, with_own
from .contents import PROVIDER

Told = list[StreamEvent]

# Why a reply ended: as it should; cut; withheld by a filter. Everything else is a failure.
_WHOLE = ("STOP", "FINISH_REASON_UNSPECIFIED")
_CUT = "MAX_TOKENS"
_REMEDY = "; raise ModelSettings.max_tokens, or lower the effort of reasoning"
_WITHHELD = frozenset(
    {
        "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
        "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
    }
)  # fmt: skip


class GoogleReply:
    """Collects one reply as far as it came."""

    def __init__(self, known_calls: int = 0) -> None:
        self.id: str | None = None
        self.request_id: str | None = None
        self.usage = Usage(requests=1)
        self._teller = ReplyEvents(PROVIDER)
        self._calls = known_calls
        self._finish: str | None = None
        self._why: str | None = None

    def feed(self, chunk: Any) -> Told:
        """Convert one answer of the client, which may be a part of the reply or all of it."""
        self.id = chunk.response_id or self.id
        headers: Mapping[str, str] = getattr(chunk.sdk_http_response, "headers", None) or {}
        self.request_id = headers.get("x-request-id") or self.request_id
        if chunk.usage_metadata is not None:
            self.usage = google_usage(chunk.usage_metadata)
        self._blocked(chunk.prompt_feedback)
        if not chunk.candidates:
            return []
        candidate = chunk.candidates[0]
        events: Told = []
        parts: list[Any] | None = candidate.content.parts if candidate.content is not None else None
        for part in parts or []:
            events += self._teller.start(self.id) + self._part(part)
        if candidate.finish_reason is not None:
            self._finish = str(getattr(candidate.finish_reason, "value", candidate.finish_reason))
            self._why = candidate.finish_message
        return events

    def finish(self) -> Told:
        """Return the last events once the reply is whole, or raise `ModelBehaviorError`."""
        with charged(self.usage):
            self._check_end()
        events = self._teller.start(self.id)
        if self._refused:
            events += self._teller.refusal(self._why or f"Gemini withheld the reply: {self._finish}.")
        events += self._teller.close()
        return events + self._teller.finish(self.response())

    def response(self) -> ModelResponse:
        """Return the reply as items."""
        items = [item for item in self._teller.items if not (self._refused and item["type"] == "function_call")]
        return ModelResponse(check_text(items), self.usage, self.id, self.request_id)

    @property
    def _refused(self) -> bool:
        return self._finish in _WITHHELD

    def _blocked(self, feedback: Any) -> None:
        if feedback is not None and feedback.block_reason is not None:
            named = getattr(feedback.block_reason, "value", feedback.block_reason)
            self._finish = "PROHIBITED_CONTENT"
            self._why = feedback.block_reason_message or f"Gemini blocked the prompt: {named}."

    def _check_end(self) -> None:
        if self._finish is None:
            raise ModelBehaviorError(f"Gemini's reply ended before it was complete; {NOTHING}")
        if self._finish == _CUT:
            last = self._teller.items[-1] if self._teller.items else None
            raise ResponseFailed("incomplete", _CUT, in_call(last) + _REMEDY)
        if self._finish not in _WHOLE and not self._refused:
            raise ResponseFailed("failed", self._finish, f": {self._why}" if self._why else "")

    def _part(self, part: Any) -> Told:
        signature = part.thought_signature
        kept = {"thought_signature": base64.b64encode(signature).decode()} if signature else {}
        if part.function_call is not None:
            return self._call(part.function_call, kept)
        if part.text is None:
            return self._other(part, kept)
        return self._thought(part.text, kept) if part.thought else self._text(part.text, kept)

    def _call(self, call: Any, kept: Item) -> Told:
        label = call.id
        self._calls += 1
        if label:
            kept = {**kept, "id": label}
        else:
            # Gemini gives no ids where it can do without. Ours is its place in the conversation, and is not sent back.
            label = f"gemini_call_{self._calls}"
        if not isinstance(call.name, str) or not call.name:
            raise ValueError("a call names no function")
        arguments = json.dumps(call.args or {}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        item: Item = {"type": "function_call", "call_id": label, "name": call.name, "arguments": arguments}
        # Marked as Gemini's own also where there is nothing to keep: what is not marked is another model's.
        item = {**item, "status": "completed", PROVIDER_DATA: {PROVIDER: kept}}
        begun = self._teller.begin({**item, "arguments": "", "status": "in_progress"})
        return [*begun, *self._teller.arguments(arguments), *self._teller.close(item)]

    def _thought(self, text: str, kept: Item) -> Told:
        teller = self._teller
        events: Told = []
        if teller.open_type != "reasoning":
            events += teller.begin({"type": "reasoning", "summary": []})
        events += teller.thought(text) if text else []
        return events + teller.close(**with_own({}, PROVIDER, kept)) if kept else events

    def _text(self, text: str, kept: Item) -> Told:
        if not kept:
            return self._teller.text(text) if text else []
        return [*self._teller.end_part(), *self._teller.text(text), *self._teller.end_part(kept)]

    def _other(self, part: Any, kept: Item) -> Told:
        """Keep a part of any other kind as it came, such as code that Gemini ran or an image it drew."""
        told = cast("Item", part.model_dump(mode="json", exclude_none=True))
        kind = next((name for name in told if name not in ("thought", "thought_signature")), None)
        if kind is None:
            return self._text("", kept)
        item: Item = {"type": kind, PROVIDER_DATA: {PROVIDER: told}}
        return [*self._teller.begin(item), *self._teller.close(item)]


def google_usage(usage: Any) -> Usage:
    """Return Gemini's usage: thoughts are output, results of its own tools are input."""
    sent = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
    thought = usage.thoughts_token_count or 0
    received = (usage.candidates_token_count or 0) + thought
    cached = TokenDetails(cached_tokens=usage.cached_content_token_count or 0)
    total = usage.total_token_count or sent + received
    return Usage(1, sent, cached, received, TokenDetails(reasoning_tokens=thought), total)
