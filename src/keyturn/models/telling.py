"""Build the Responses events of a reply while it streams: what a member calls for each thing its provider sends.

The order is that of `reply_events`, which tells a reply that is known whole. Nothing here knows a provider.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from ..core.items import Item
from .base import ModelResponse
from .reply_events import StreamEvent, response_fields
from .turns import with_own

# For each kind of part of a message: the field that grows, and what its events are called.
_PARTS = {"output_text": ("text", "output_text"), "refusal": ("refusal", "refusal")}


class ReplyEvents:
    """Numbers the events of one reply and tracks which item and part is open; `items` are those it closed.

    >>> teller = ReplyEvents()
    >>> events = [*teller.text("to "), *teller.text("be"), *teller.close()]
    >>> [event.type.removeprefix("response.") for event in events[:4]]
    ['output_item.added', 'content_part.added', 'output_text.delta', 'output_text.delta']
    >>> events[-1].item.content[0].text
    'to be'
    """

    def __init__(self, provider: str = "") -> None:
        self._provider = provider
        self._kept: list[Item] = []
        self.started = False
        self.items: list[Item] = []
        self._number = count()
        self._index = -1
        self._open: Item | None = None
        self._part: Item | None = None
        self._told: list[str] = []

    @property
    def open_type(self) -> str | None:
        """Return the type of the item that is open, None where none is."""
        return None if self._open is None else self._open["type"]

    def event(self, name: str, **fields: Any) -> StreamEvent:
        """Return the next event."""
        return StreamEvent(f"response.{name}", **fields, sequence_number=next(self._number))

    def start(self, response_id: str | None) -> list[StreamEvent]:
        """Return the first event, once only."""
        if self.started:
            return []
        self.started = True
        first = ModelResponse([], response_id=response_id)
        return [self.event("created", response=response_fields(first, "in_progress", []))]

    def text(self, delta: str) -> list[StreamEvent]:
        """Add text to the message that is open, or to a new one."""
        return self._in_part("output_text", {"annotations": []}, delta)

    def refusal(self, delta: str) -> list[StreamEvent]:
        """Add to a refusal, in the message that is open or in a new one."""
        return self._in_part("refusal", {}, delta)

    def thought(self, delta: str) -> list[StreamEvent]:
        """Add to what the model thinks; the member has called `begin` for the item."""
        events: list[StreamEvent] = []
        if not self._told:
            part = {"type": "summary_text", "text": ""}
            events.append(self.event("reasoning_summary_part.added", part=part, summary_index=0, **self._place()))
        events.append(self.event("reasoning_summary_text.delta", delta=delta, summary_index=0, **self._place()))
        self._told.append(delta)
        return events

    def arguments(self, delta: str) -> list[StreamEvent]:
        """Add to a call's arguments; the member has called `begin` for the item."""
        self._told.append(delta)
        return [self.event("function_call_arguments.delta", delta=delta, **self._place())]

    def begin(self, item: Item) -> list[StreamEvent]:
        """Open a new item, and close the one before it."""
        events = self.close()
        self._index += 1
        self._open = item
        self._told = []
        return [*events, self.event("output_item.added", item=item, output_index=self._index)]

    def end_part(self, kept: Item | None = None, **known: Any) -> list[StreamEvent]:
        """Close the part that is open.

        `known` is what was only said at its end, `kept` what the provider itself needs to have back of it.
        """
        part, item = self._part, self._open
        if part is None or item is None:
            return []
        field, name = _PARTS[part["type"]]
        whole = {**part, field: "".join(self._told), **known}
        here = {**self._place(), "content_index": len(item["content"])}
        self._open = {**item, "content": [*item["content"], whole]}
        self._part = None
        self._told = []
        self._kept.append(kept or {})
        done = self.event(f"{name}.done", **{field: whole[field]}, **here)
        return [done, self.event("content_part.done", part=whole, **here)]

    def close(self, item: Item | None = None, **known: Any) -> list[StreamEvent]:
        """Close the item that is open: with `item`, or what was collected and what is `known` only at its end."""
        events = self.end_part()
        if self._open is None:
            return events
        whole = item if item is not None else {**self._open, **known}
        if any(self._kept):
            whole = with_own(whole, self._provider, {"parts": self._kept})
        if "status" in whole:
            whole["status"] = "completed"
        text = "".join(self._told)
        if whole["type"] == "reasoning" and text:
            part = {"type": "summary_text", "text": text}
            whole["summary"] = [part]
            events.append(self.event("reasoning_summary_text.done", text=text, summary_index=0, **self._place()))
            events.append(self.event("reasoning_summary_part.done", part=part, summary_index=0, **self._place()))
        elif whole["type"] == "function_call":
            said = whole["arguments"]
            events.append(self.event("function_call_arguments.done", arguments=said, **self._place()))
        events.append(self.event("output_item.done", item=whole, output_index=self._index))
        self.items.append(whole)
        self._open = None
        self._told = []
        self._kept = []
        return events

    def finish(self, response: ModelResponse) -> list[StreamEvent]:
        """Return the last event, with the whole reply."""
        whole = response_fields(response, "completed", [dict(item) for item in response.output])
        return [*self.close(), self.event("completed", response=whole)]

    def _in_part(self, kind: str, rest: Item, delta: str) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if self._open is None or self._open.get("type") != "message":
            events += self.begin({"type": "message", "role": "assistant", "status": "in_progress", "content": []})
        field, name = _PARTS[kind]
        if self._part is not None and self._part["type"] != kind:
            events += self.end_part()
        assert self._open is not None
        here = {**self._place(), "content_index": len(self._open["content"])}
        if self._part is None:
            self._part = {"type": kind, field: "", **rest}
            events.append(self.event("content_part.added", part=self._part, **here))
        if delta:  # a part may have no words at all, and what a provider must have back
            self._told.append(delta)
            events.append(self.event(f"{name}.delta", delta=delta, **here))
        return events

    def _place(self) -> Item:
        return {"item_id": f"item_{self._index}", "output_index": self._index}
