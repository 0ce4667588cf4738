"""Group a conversation into turns that alternate, each call beside its result, as the Messages API and Gemini want it.

Items of the Responses format come in, in any order that a log, a session or a filter may give them. What a provider
alone understands travels on an item under `provider_data`, by the provider's name, and only that provider is sent it.
Nothing here knows a wire format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ..core.errors import BadJson, UserError
from ..core.items import Item
from ..core.strict import TextLimits, parse

PROVIDER_DATA = "provider_data"
NO_RESULT = "No result of this call was recorded."

# Items that stand for content which only the provider that made them can read: to leave them out would be to forget.
_SEALED = ("item_reference", "compaction")
_SYSTEM = ("system", "developer")
# What a model wrote is as long as it may be; only what it means must be plain.
_INPUT = TextLimits(bytes=64 << 20)


@dataclass
class CallWithResult:
    """Pairs a call in a conversation with its result, where there is one."""

    item: Item
    result: Item | None = None

    @property
    def name(self) -> str:
        """Return the tool's name; of a kind that names no tool, the kind."""
        return str(self.item.get("name") or str(self.item.get("type")).removesuffix("_call"))

    @property
    def arguments(self) -> str:
        """Return the arguments as JSON; of a kind that has none, what it has instead."""
        if self.item.get("type") == "function_call":
            return str(self.item.get("arguments") or "{}")
        kept = {key: value for key, value in self.item.items() if key not in _NO_ARGUMENTS}
        return json.dumps(kept, ensure_ascii=False)


_NO_ARGUMENTS = frozenset({"type", "id", "call_id", "name", "status", PROVIDER_DATA})


@dataclass
class ConversationTurn:
    """Holds what one side said without the other speaking: items, and in a model's turn its calls."""

    role: Literal["user", "assistant"]
    items: list[Item | CallWithResult] = field(default_factory=list["Item | CallWithResult"])

    @property
    def calls(self) -> list[CallWithResult]:
        """Return the calls, in order."""
        return [entry for entry in self.items if isinstance(entry, CallWithResult)]


def own(item: Mapping[str, Any], provider: str) -> Any:
    """Return the `provider_data` that a provider itself left on an item or a part; None where another one made it.

    >>> own({"provider_data": {"anthropic": {"signature": "s"}}}, "anthropic")
    {'signature': 's'}
    """
    data = item.get(PROVIDER_DATA)
    return cast("Mapping[str, Any]", data).get(provider) if isinstance(data, Mapping) else None


def own_parts(item: Mapping[str, Any], provider: str) -> list[tuple[Item, Item]]:
    """Return a message's parts, each with the data that its provider must get back.

    That is kept on the message and not on its parts, where other providers would not expect it.
    """
    parts, mine = parts_of(item.get("content")), cast("Item", own(item, provider) or {})
    kept: list[Item] = mine.get("parts") or []
    if len(kept) != len(parts):  # somebody else has changed the message since
        return [(part, {}) for part in parts]
    return list(zip(parts, kept, strict=True))


def with_own(item: Item, provider: str, data: Mapping[str, Any]) -> Item:
    """Return the item with the data that the provider must get back, if there is any."""
    return {**item, PROVIDER_DATA: {provider: dict(data)}} if data else item


def split(items: Iterable[Item], provider: str) -> tuple[list[str], list[ConversationTurn]]:
    """Split the items into instructions and turns.

    A result stands with its call wherever it came; one whose call is not here is left out.

    >>> _, [user, model] = split([{"role": "user", "content": "hi"}, {"type": "function_call", "call_id": "c"}], "x")
    >>> user.role, model.role, model.calls[0].result
    ('user', 'assistant', None)
    """
    system: list[str] = []
    turns: list[ConversationTurn] = []
    waiting: dict[str, list[CallWithResult]] = {}
    for item in items:
        kind, role = str(item.get("type", "message")), item.get("role")
        label = item.get("call_id")
        if kind in _SEALED:
            raise UserError(f"this conversation holds an item of type {kind!r} that only its own provider can read")
        if kind == "message" and role in _SYSTEM:
            system.append(text_of(item.get("content")))
        elif kind.endswith("_output") and isinstance(label, str):
            open_calls = waiting.get(label)
            if open_calls:
                open_calls.pop(0).result = item
        elif kind == "message" and role != "assistant":
            _turn(turns, "user").items.append(item)
        elif kind.endswith("_call") and isinstance(label, str):
            call = CallWithResult(item)
            _turn(turns, "assistant").items.append(call)
            waiting.setdefault(label, []).append(call)
        elif kind in ("message", "reasoning") or own(item, provider) is not None:
            _turn(turns, "assistant").items.append(item)
    return system, turns


def _turn(turns: list[ConversationTurn], role: Literal["user", "assistant"]) -> ConversationTurn:
    """Return the turn to append to; after a result, what a model says starts a new turn."""
    last = turns[-1] if turns else None
    if last is None or last.role != role or (role == "assistant" and any(call.result for call in last.calls)):
        turns.append(ConversationTurn(role))
    return turns[-1]


def tool_input(arguments: str) -> Item:
    """Parse a call's arguments as a JSON object; invalid ones are shown to the model as it wrote them.

    >>> tool_input('{"to": "ada"}'), tool_input('{"to": ')
    ({'to': 'ada'}, {'INVALID_JSON': '{"to": '})
    """
    value = _object(arguments)
    return {"INVALID_JSON": arguments} if value is None else value


def call_text(arguments: str) -> str:
    """Return a call's arguments as the text of a JSON object: as the model wrote it, or the text of what it wrote.

    Servers of open models parse the calls of a conversation before they ask the model, and refuse all of it where one
    is no object: llama.cpp with status 500, vLLM with 400, again at every try.

    >>> call_text('{"to":  "ada"}'), call_text("to ada")
    ('{"to":  "ada"}', '{"INVALID_JSON": "to ada"}')
    """
    if _object(arguments) is not None:
        return arguments or "{}"
    return json.dumps(tool_input(arguments), ensure_ascii=False)


def _object(arguments: str) -> Item | None:
    try:
        value = parse(arguments or "{}", _INPUT)
    except BadJson:
        return None
    return cast("Item", value) if isinstance(value, dict) else None


def text_of(content: object) -> str:
    """Return the text of a message's content, whatever else is in it."""
    if isinstance(content, str):
        return content
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return "".join(_part_text(part) for part in parts)


def _part_text(part: object) -> str:
    return str(cast("Item", part).get("text") or "") if isinstance(part, Mapping) else str(part)


def parts_of(content: object) -> list[Item]:
    """Return a message's content, or a call's output, as parts; a text is one part."""
    if content is None:
        return []
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in cast("list[Any]", content)):
        return cast("list[Item]", content)
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    return [{"type": "input_text", "text": text}]


def output_parts(result: Item) -> list[Item]:
    """Return a call's result as parts: texts, images and files as they are, anything else as JSON."""
    output = result.get("output")
    parts = parts_of(output)
    if all(str(part.get("type")).startswith("input_") for part in parts):
        return parts
    return [{"type": "input_text", "text": json.dumps(output, ensure_ascii=False, default=str)}]


def data_url(url: str) -> tuple[str, str] | None:
    """Return the media type and base64 data of a data URL, None for every other address.

    >>> data_url("data:image/png;base64,aGk="), data_url("https://example.com/cat.png")
    (('image/png', 'aGk='), None)
    """
    if not url.startswith("data:"):
        return None
    head, comma, data = url[5:].partition(",")
    if not comma or not head.endswith(";base64"):
        raise UserError("a data URL in the input must be base64: data:<type>;base64,<data>")
    return head.removesuffix(";base64").partition(";")[0] or "application/octet-stream", data


def file_data(part: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the media type and base64 data of a file part that carries its data."""
    data = part.get("file_data")
    if not isinstance(data, str):
        return None
    return data_url(data) or (_type_by_name(part.get("filename")), data)


def _type_by_name(name: object) -> str:
    import mimetypes  # rarely needed, and it reads the system's tables

    return (mimetypes.guess_type(name)[0] if isinstance(name, str) else None) or "application/pdf"
