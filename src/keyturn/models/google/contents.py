"""Convert a conversation in the Responses format to Gemini's contents, each call's result right behind it.

Thought signatures go back on the very part they came with, ids of calls only where Gemini gave them: both are in the
items' `provider_data`. Nothing here asks, and nothing here reads a reply.
"""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ...core.errors import UserError
from ...core.items import Item
from ..turns import (
    NO_RESULT,
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

PROVIDER = "google"

Part = dict[str, Any]
Content = dict[str, Any]

# What Gemini takes in place of a signature on a call that it did not make: its own name for it, as it stands on the
# wire. https://ai.google.dev/gemini-api/docs/thought-signatures
_NOT_MINE = base64.urlsafe_b64decode("skip_thought_signature_validator")
_OLD = re.compile(r"(?:.*/)?gemini-[12](?!\d)")


def is_old(model: str) -> bool:
    """Return whether a model is older than Gemini 3: no media in results, no schema beside functions, no levels.

    >>> is_old("gemini-2.5-flash"), is_old("gemini-3-pro-preview")
    (True, False)
    """
    return _OLD.match(model) is not None


def contents(items: Iterable[Item], model: str) -> tuple[list[str], list[Content]]:
    """Return the instructions among the items, and the contents.

    >>> contents([{"role": "user", "content": "hi"}], "gemini-3-flash")
    ([], [{'role': 'user', 'parts': [{'text': 'hi'}]}])
    """
    system, turns = split(items, PROVIDER)
    made: list[Content] = []
    for turn in turns:
        if turn.role == "user":
            _add(made, "user", [part for item in turn.items for part in _user_parts(cast("Item", item))])
            continue
        if not made:
            _add(made, "user", [{"text": "(The beginning of this conversation is not shown.)"}])
        _add(made, "model", _model_parts(turn))
        results = [_result(call, is_old(model)) for call in turn.calls]
        _add(made, "user", [result for result, _ in results])
        _add(made, "user", [part for _, media in results for part in media])
    return system, made


def _add(made: list[Content], role: str, parts: list[Part]) -> None:
    if parts:
        made.append({"role": role, "parts": parts})


def _model_parts(turn: ConversationTurn) -> list[Part]:
    parts: list[Part] = []
    signed = False
    for entry in turn.items:
        if not isinstance(entry, CallWithResult):
            parts += _said_parts(entry)
            continue
        part = _function_call(entry)
        # Gemini 3 wants a signature on the first call of each step, whoever made it.
        if not signed and "thought_signature" not in part and own(entry.item, PROVIDER) is None:
            part["thought_signature"] = _NOT_MINE
        signed = True
        parts.append(part)
    return parts


def _said_parts(item: Item) -> list[Part]:
    kind, kept = item.get("type", "message"), own(item, PROVIDER)
    if kind == "message":
        return [part for each in own_parts(item, PROVIDER) for part in _said_part(*each)]
    if kept is None:
        return []
    if kind != "reasoning":
        return [dict(kept)]
    summary = cast("list[Item]", item.get("summary") or [])
    return [{"text": "".join(part.get("text") or "" for part in summary), "thought": True, **kept}]


def _said_part(part: Item, kept: Item) -> list[Part]:
    text = str(part.get("refusal") if part.get("type") == "refusal" else part.get("text") or "")
    return [{"text": text, **kept}] if text or kept else []


def _function_call(call: CallWithResult) -> Part:
    kept: Part = dict(own(call.item, PROVIDER) or {})
    label = {"id": kept.pop("id")} if "id" in kept else {}
    return {"function_call": {"name": call.name, "args": tool_input(call.arguments), **label}, **kept}


def _result(call: CallWithResult, old: bool) -> tuple[Part, list[Part]]:
    """Convert a call's result, and the media of it that must follow in a content of their own."""
    kept: Part = own(call.item, PROVIDER) or {}
    made: Part = {"name": call.name, **({"id": kept["id"]} if "id" in kept else {})}
    if call.result is None:
        return {"function_response": {**made, "response": {"error": NO_RESULT}}}, []
    parts = [_given_part(part) for part in output_parts(call.result)]
    texts = [part["text"] for part in parts if "text" in part]
    media = [part for part in parts if "text" not in part]
    made["response"] = {"output": "\n".join(texts)}
    if media and not old:
        made["parts"], media = media, []
    return {"function_response": made}, media


def _user_parts(item: Item) -> list[Part]:
    parts = [_given_part(part) for part in parts_of(item.get("content"))]
    return [part for part in parts if part.get("text") != ""]


def _given_part(part: Item) -> Part:
    kind = str(part.get("type", "input_text"))
    if kind in ("input_text", "output_text", "text"):
        return {"text": str(part.get("text") or "")}
    if kind == "input_image":
        url = part.get("image_url")
        if isinstance(url, Mapping):  # as Chat Completions has it
            url = cast("Mapping[str, Any]", url).get("url")
        return _media(part, url, data_url(url) if isinstance(url, str) else None, "image/png")
    if kind == "input_file":
        return _media(part, part.get("file_url"), file_data(part), "application/pdf")
    if kind == "input_audio":
        sound: Item = part["input_audio"]
        return {"inline_data": {"mime_type": f"audio/{sound['format']}", "data": sound["data"]}}
    if own(part, PROVIDER) is not None:
        return dict(own(part, PROVIDER))
    raise UserError(f"Gemini takes texts, images, files and audio, not a part of type {kind!r}")


def _media(part: Item, url: object, data: tuple[str, str] | None, usual: str) -> Part:
    if data is not None:
        return {"inline_data": {"mime_type": data[0], "data": data[1]}}
    uri = url or part.get("file_id")
    if not isinstance(uri, str) or not uri:
        raise UserError(f"a part of type {part.get('type')!r} needs its data, an address or a file id")
    return {"file_data": {"file_uri": uri, "mime_type": mimetypes.guess_type(uri)[0] or usual}}
