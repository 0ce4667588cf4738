"""Read common things of items: the texts of messages, inputs as lists, outputs of calls as input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ...core.items import Item, message_text, plain_item
from .items import MessageOutputItem


class ItemHelpers:
    """Reads common things of items.

    >>> ItemHelpers.input_to_new_input_list("hi")
    [{'role': 'user', 'content': 'hi'}]
    """

    @staticmethod
    def text_message_outputs(items: list[Any]) -> str:
        """Return the text of all messages, joined."""
        return "".join(ItemHelpers.text_message_output(item) for item in items if isinstance(item, MessageOutputItem))

    @staticmethod
    def text_message_output(message: MessageOutputItem) -> str:
        """Return the text of one message."""
        return message_text({"role": "assistant", **message.raw_item})

    @staticmethod
    def extract_text(message: object) -> str | None:
        """Return the text of a raw message item without its refusals, None where it has none."""
        return _parts(message, "output_text", "text")

    @staticmethod
    def extract_refusal(message: object) -> str | None:
        """Return the refusal of a raw message item, None where it has none."""
        return _parts(message, "refusal", "refusal")

    @staticmethod
    def extract_last_text(message: Mapping[str, Any]) -> str | None:
        """Return the text of a raw message item, None where it has none."""
        return message_text(message) or None

    @staticmethod
    def extract_last_content(message: Mapping[str, Any]) -> str:
        """Return the text of a raw message item."""
        return message_text(message)

    @staticmethod
    def input_to_new_input_list(given: str | list[Any]) -> list[Item]:
        """Return an input as a new list of items."""
        return [{"role": "user", "content": given}] if isinstance(given, str) else [dict(item) for item in given]

    @staticmethod
    def tool_call_output_item(tool_call: Mapping[str, Any], output: Any) -> Item:
        """Return a function call's output as an input item."""
        return {"type": "function_call_output", "call_id": tool_call["call_id"], "output": str(output)}


def _parts(message: object, kind: str, key: str) -> str | None:
    """Join the parts of one kind of a raw message item, given as a mapping or as an object of the OpenAI SDK."""
    item = plain_item(message)
    content = item.get("content") if item.get("type") == "message" else None
    parts = cast("list[Item]", content) if isinstance(content, list) else []
    return "".join(part.get(key) or "" for part in parts if part.get("type") == kind) or None
