"""Convert the items of a conversation to messages, and messages to items.

Items are what runs, models and logs exchange; messages are how programs of Pydantic AI read them. From items nothing is
lost but what a provider keeps on them; from messages come texts, calls and results only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from ..core.errors import BadJson, UserError
from ..core.items import Item, message_text, own_copy
from ..core.strict import parse
from .messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RequestPart,
    ResponsePart,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)


def messages_of(items: Iterable[Item]) -> list[ModelMessage]:
    """Convert items to messages: what goes to the model and what comes from it, turn by turn."""
    made: list[ModelMessage] = []
    named: dict[str, str] = {}
    for item in items:
        part = _part(item, named)
        if isinstance(part, TextPart | ThinkingPart | ToolCallPart):
            _add(made, ModelResponse, part)
        elif part is not None:
            _add(made, ModelRequest, part)
    return made


def _add(made: list[ModelMessage], kind: Any, part: object) -> None:
    if not made or not isinstance(made[-1], kind):
        made.append(kind([]))
    cast("list[Any]", made[-1].parts).append(part)


def _part(item: Item, named: dict[str, str]) -> RequestPart | ResponsePart | None:
    kind = str(item.get("type", "message"))
    if kind == "message":
        return _said(item)
    if kind == "reasoning":
        return ThinkingPart(_thought(item))
    label = str(item.get("call_id") or item.get("id") or "")
    if kind.endswith("_output") or kind == "mcp_approval_response":
        return ToolReturnPart(named.get(label, ""), own_copy(item.get("output")), label)
    name = str(item.get("name") or kind.removesuffix("_call"))
    named[label] = name
    return ToolCallPart(name, _args(item), label)


def _said(item: Item) -> RequestPart | ResponsePart:
    if item.get("role") == "assistant":
        return TextPart(message_text(item))
    content = own_copy(item.get("content") or "")
    return UserPromptPart(content) if item.get("role") == "user" else SystemPromptPart(_joined(content))


def _joined(content: Any) -> str:
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)


def _thought(item: Item) -> str:
    parts = cast("list[Any]", item.get("summary") or item.get("content") or [])
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # a provider's own


def _args(item: Item) -> dict[str, Any] | str:
    """Return a call's arguments as an object, else its text; a call of another kind is all that it says."""
    text = item.get("arguments", item.get("input"))
    if not isinstance(text, str):
        return {name: own_copy(value) for name, value in item.items() if name not in ("type", "id", "call_id", "name")}
    try:
        given = parse(text or "{}")
    except BadJson:
        return text
    return given if isinstance(given, dict) else text


def items_of(messages: Sequence[ModelMessage], first: int = 0) -> list[Item]:
    """Convert messages that nobody has sealed to items: text for a model to read, and nothing that runs."""
    made: list[Item] = []
    for place, message in enumerate(messages, first):
        made += [_item(part, f"message_history[{place}]") for part in message.parts]
    return [item for item in made if item]


def _item(part: object, where: str) -> Item:
    match part:
        case UserPromptPart():
            return user_item(part.content, where)
        case TextPart():
            return {"role": "assistant", "content": _text(part.content, where)}
        case ThinkingPart():
            return {}  # a provider takes back only its own, sealed thoughts
        case ToolCallPart():
            name, label = _text(part.tool_name, where), _text(part.tool_call_id, where)
            return {"type": "function_call", "name": name, "call_id": label, "arguments": _arguments(part, where)}
        case ToolReturnPart() | RetryPromptPart():
            output = part.content if isinstance(part.content, str) else _dumped(part.content, where)
            return {"type": "function_call_output", "call_id": _text(part.tool_call_id, where), "output": output}
        case SystemPromptPart():
            raise UserError(
                f"{where} holds a system prompt, and none is believed that is not sealed by a run; give it to the "
                "agent as instructions="
            )
        case _:
            raise UserError(f"{where} holds a {type(part).__name__}, which is no part of a message that can be taken")


def user_item(content: object, where: str) -> Item:
    """Make the item of what a user said: a text, or a list of texts and content parts."""
    if isinstance(content, str):
        return {"role": "user", "content": content}
    kind = type(content).__name__
    if not isinstance(content, list | tuple) or not content:
        raise UserError(f"{where} must be a text or a list of texts, not {kind}")
    parts = [_content(each, where) for each in cast("Sequence[Any]", content)]
    return {"role": "user", "content": parts}


def _content(each: Any, where: str) -> Item:
    kind = type(each).__name__
    if isinstance(each, str):
        return {"type": "input_text", "text": each}
    if isinstance(each, dict) and str(cast("Item", each).get("type", "")).startswith("input_"):
        return own_copy(each)
    raise UserError(f"{where} holds a {kind}; it may hold texts and content parts of type input_...")


def _arguments(part: ToolCallPart, where: str) -> str:
    try:
        return part.args_as_json_str()
    except BadJson as error:
        raise UserError(f"{where} holds a call of {part.tool_name!r} whose arguments are no JSON: {error}") from None


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{where} has a {type(value).__name__} where a text must be")
    return value


def _dumped(value: object, where: str) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise UserError(f"{where} holds a result that is no JSON") from None
