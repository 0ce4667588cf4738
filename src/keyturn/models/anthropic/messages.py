"""Convert a conversation in the Responses format to the Messages API: turns alternate, results follow their calls.

What Claude itself made and must have back unchanged (thinking with its signature, server tools' blocks) is taken from
the items' `provider_data`. Nothing here asks, and nothing here reads a reply.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ...core.errors import UserError
from ...core.items import Item
from ..turns import (
    NO_RESULT,
    PROVIDER_DATA,
    CallWithResult,
    ConversationTurn,
    data_url,
    file_data,
    output_parts,
    own,
    own_parts,
    parts_of,
    split,
    tool_input,
)

PROVIDER = "anthropic"
THINKING = ("thinking", "redacted_thinking")

Block = dict[str, Any]

_ID = re.compile(r"[^a-zA-Z0-9_-]")


def messages(items: Iterable[Item]) -> tuple[list[str], list[Block]]:
    """Return the instructions among the items, and the messages.

    >>> messages([{"role": "user", "content": "hi"}])
    ([], [{'role': 'user', 'content': [{'type': 'text', 'text': 'hi'}]}])
    """
    system, turns = split(items, PROVIDER)
    said, labels = _Said(), _Labels()
    for turn in turns:
        if turn.role == "user":
            said.add("user", [block for item in turn.items for block in _user_blocks(cast("Item", item))])
        else:
            ids = {id(call): labels.unique(call) for call in turn.calls}
            said.add("assistant", _assistant_blocks(turn, ids))
            said.add("user", [_result(call, ids[id(call)]) for call in turn.calls])
    return system, said.messages


def called_names(messages: list[Block]) -> list[str]:
    """Return the names of the tools that were called in these messages, each once."""
    blocks = (block for message in messages for block in message["content"])
    return list(dict.fromkeys(block["name"] for block in blocks if block.get("type") == "tool_use"))


class _Said:
    """Collects messages: neighbours of one role are merged, and the user's comes first."""

    def __init__(self) -> None:
        self.messages: list[Block] = []

    def add(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if not self.messages and role != "user":
            self.add("user", [_text("(The beginning of this conversation is not shown.)")])
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})


class _Labels:
    """Makes call ids that the API accepts: of its alphabet, and each once in a request; most stay as they are."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def unique(self, call: CallWithResult) -> str:
        plain = _ID.sub("_", str(call.item.get("call_id") or "call"))
        label, number = plain, 1
        while label in self._used:
            number += 1
            label = f"{plain}_{number}"
        self._used.add(label)
        return label


def _assistant_blocks(turn: ConversationTurn, ids: Mapping[int, str]) -> list[Block]:
    blocks: list[Block] = []
    for entry in turn.items:
        blocks += [_tool_use(entry, ids[id(entry)])] if isinstance(entry, CallWithResult) else _said_blocks(entry)
    while blocks and blocks[-1]["type"] in THINKING:
        blocks.pop()  # the API takes no message that ends in thinking: the reply was cut there
    return blocks


def _said_blocks(item: Item) -> list[Block]:
    """Return what the model said or thought as blocks; thoughts of another provider's model are left out."""
    kind, kept = item.get("type", "message"), own(item, PROVIDER)
    if kind == "message":
        return [block for each in own_parts(item, PROVIDER) for block in _said_part(*each)]
    if kept is None:
        return []
    if kind != "reasoning":
        return [{key: value for key, value in item.items() if key != PROVIDER_DATA}]
    if kept.get("type") != "thinking":
        return [dict(kept)]
    summary = cast("list[Item]", item.get("summary") or [])
    return [{"type": "thinking", "thinking": "".join(part.get("text") or "" for part in summary), **kept}]


def _said_part(part: Item, kept: Item) -> list[Block]:
    text = str(part.get("refusal") if part.get("type") == "refusal" else part.get("text") or "")
    return [{**_text(text), **kept}] if text.strip() else []


def _tool_use(call: CallWithResult, label: str) -> Block:
    kept: Block = own(call.item, PROVIDER) or {}
    return {"type": "tool_use", "id": label, "name": call.name, "input": tool_input(call.arguments), **kept}


def _result(call: CallWithResult, label: str) -> Block:
    made: Block = {"type": "tool_result", "tool_use_id": label}
    kept: Block = own(call.item, PROVIDER) or {}
    if "toolset_name" in kept:
        made["toolset_name"] = kept["toolset_name"]
    if call.result is None:
        return {**made, "content": NO_RESULT, "is_error": True}
    output = call.result.get("output")
    if isinstance(output, str):
        return {**made, "content": output} if output.strip() else made
    blocks = [block for part in output_parts(call.result) for block in _given_part(part)]
    return {**made, "content": blocks} if blocks else made


def _user_blocks(item: Item) -> list[Block]:
    return [block for part in parts_of(item.get("content")) for block in _given_part(part)]


def _given_part(part: Item) -> list[Block]:
    kind = str(part.get("type", "input_text"))
    if kind == "input_image":
        return [{"type": "image", "source": _image_source(part)}]
    if kind == "input_file":
        title = {"title": part["filename"]} if part.get("filename") else {}
        return [{"type": "document", "source": _file_source(part), **title}]
    if kind in ("input_text", "output_text", "text"):
        text = str(part.get("text") or "")
        return [_text(text)] if text.strip() else []
    if own(part, PROVIDER) is not None:
        return [dict(own(part, PROVIDER))]
    raise UserError(f"the Messages API takes texts, images and files, not a part of type {kind!r}")


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _image_source(part: Item) -> Block:
    url = part.get("image_url")
    if isinstance(url, Mapping):  # as Chat Completions has it
        url = cast("Mapping[str, Any]", url).get("url")
    return _source(part, url, data_url(url) if isinstance(url, str) else None)


def _file_source(part: Item) -> Block:
    data = file_data(part)
    if data is not None and data[0].startswith("text/"):
        return {"type": "text", "media_type": "text/plain", "data": _plain(data[1])}
    return _source(part, part.get("file_url"), data)


def _plain(data: str) -> str:
    try:
        return base64.b64decode(data).decode("utf-8", "replace")
    except binascii.Error as error:
        raise UserError(f"the data of a file in the input is not base64: {error}") from error


def _source(part: Item, url: object, data: tuple[str, str] | None) -> Block:
    if data is not None:
        return {"type": "base64", "media_type": data[0], "data": data[1]}
    if isinstance(url, str) and url:
        return {"type": "url", "url": url}
    if part.get("file_id"):
        return {"type": "file", "file_id": part["file_id"]}
    raise UserError(f"a part of type {part.get('type')!r} needs its data, an address or a file id")
