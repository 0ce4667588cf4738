"""Convert a conversation in the Responses format to the messages of Chat Completions.

What one reply said and called is one assistant message, and each result stands right behind its calls, as that API
wants it. Nothing is dropped in silence: an item that no message can carry is an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

from ...core.errors import UserError
from ...core.items import Item, refusal_text
from ..turns import PROVIDER_DATA, call_text, own, text_of
from .chat_parts import chat_content

#: Under this name items keep what only servers of this API understand: thoughts, signatures, fields of their own.
PROVIDER = "openai_chat"

_REMEDY = "drop it with a handoff's input_filter or RunConfig(call_model_input_filter=...), or use OpenAIResponsesModel"


def chat_messages(instructions: str | None, items: list[Item]) -> list[Item]:
    """Return the messages to send.

    >>> call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    >>> done = {"type": "function_call_output", "call_id": "c1", "output": "blue"}
    >>> [message["role"] for message in chat_messages("Be brief.", [{"role": "user", "content": "hi"}, call, done])]
    ['system', 'user', 'assistant', 'tool']
    """
    made = _Messages(items)
    if instructions:
        made.messages.append({"role": "system", "content": instructions})
    for place, item in enumerate(items):
        kind = item.get("type", "message")
        take, made.place = _TAKERS.get(kind), place
        if take is None and PROVIDER_DATA in item:
            continue  # what another provider ran itself: its model has told what came of it
        if take is None:
            raise UserError(f"Chat Completions cannot carry the item {place} of the input, a {kind!r}: {_REMEDY}")
        take(made, item)
    made.close()
    return made.messages


class _Messages:
    """Collects the messages, and the assistant's message that is still open."""

    def __init__(self, items: list[Item]) -> None:
        self.messages: list[Item] = []
        self._open: Item | None = None
        self._thought: Item = {}
        self._results: dict[str, deque[Item]] = {}
        self._taken: set[int] = set()
        for item in items:
            if item.get("type") in _OUTPUTS:
                self._results.setdefault(item["call_id"], deque()).append(item)
        self._last_user = max((n for n, item in enumerate(items) if item.get("role") == "user"), default=-1)
        self.place = 0

    def message(self, item: Item) -> None:
        """Add what somebody said."""
        role = item.get("role")
        if role == "assistant":
            self._said(item)
            return
        self.close()
        self.messages.append({"role": role, "content": chat_content(item.get("content"))})

    def thought(self, item: Item) -> None:
        """Add what the model thought, in the fields its own server gave; other servers do not get it.

        They go back with calls that follow, while the user has not spoken again: that is where servers want them.
        """
        if self._open is not None and "tool_calls" not in self._open:
            self.close()
        fields = own(item, PROVIDER) if self.place > self._last_user else None
        for name, value in cast("Item", fields or {}).items():
            before = self._thought.get(name)
            self._thought[name] = value if type(before) is not type(value) else before + value

    def call(self, item: Item) -> None:
        """Add a call of the model."""
        open_ = self._assistant()
        extra: Mapping[str, Any] = own(item, PROVIDER) or {}
        if item["type"] == "custom_tool_call":
            kind, given = "custom", {"input": item["input"]}
        else:
            kind, given = "function", {"arguments": call_text(item["arguments"])}
        told = {"id": item["call_id"], "type": kind, kind: {"name": item["name"], **given}, **extra}
        open_.setdefault("tool_calls", []).append(told)

    def result(self, item: Item) -> None:
        """Add a call's result; where its call came before, it was sent with it."""
        self.close()
        if id(item) not in self._taken:
            self._result(item)

    def close(self) -> None:
        """Close the assistant's message and add it, with the results of its calls."""
        open_, self._open = self._open, None
        if open_ is None:
            return
        self.messages.append(open_)
        for call in open_.get("tool_calls", ()):
            waiting = self._results.get(call["id"])
            if waiting:
                self._result(waiting.popleft())
        if "tool_calls" in open_:
            open_.update({name: value for name, value in self._thought.items() if name not in open_})
        self._thought = {}

    def _said(self, item: Item) -> None:
        text, refused = text_of(item.get("content")), refusal_text(item)
        open_ = self._open
        if open_ is not None and "tool_calls" not in open_ and (open_["content"] is not None or "refusal" in open_):
            self.close()
        open_ = self._assistant()
        if text or not refused:
            open_["content"] = text if open_["content"] is None else open_["content"] + text
        if refused:
            open_["refusal"] = refused

    def _assistant(self) -> Item:
        if self._open is None:
            self._open = {"role": "assistant", "content": None}
        return self._open

    def _result(self, item: Item) -> None:
        self._taken.add(id(item))
        self.messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": chat_content(item["output"])})


_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_TAKERS: dict[str, Callable[[_Messages, Item], None]] = {
    "message": _Messages.message,
    "reasoning": _Messages.thought,
    "function_call": _Messages.call,
    "custom_tool_call": _Messages.call,
    "function_call_output": _Messages.result,
    "custom_tool_call_output": _Messages.result,
}
