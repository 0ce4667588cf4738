"""Convert the content of a message or of a call's result to Chat Completions: a text, or parts.

One file for one reason: a new kind of part is one function and one row. Nothing here knows whose message it is.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.errors import UserError
from ...core.items import Item
from ..turns import parts_of


def chat_content(content: object) -> str | list[Item]:
    """Convert a content; a single text stays a text, because not every server takes parts.

    >>> chat_content([{"type": "input_text", "text": "hi"}])
    'hi'
    """
    if isinstance(content, str):
        return content
    parts = [_part(part) for part in parts_of(content)]
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _part(part: Item) -> Item:
    kind = str(part.get("type"))
    make = _PARTS.get(kind)
    if make is None:
        raise UserError(f"Chat Completions has no content of type {kind!r}: send it as text, or use the Responses API")
    return make(part)


def _text(part: Item) -> Item:
    return {"type": "text", "text": part.get("text") or ""}


def _image(part: Item) -> Item:
    url = part.get("image_url")
    if not isinstance(url, str):
        raise UserError("Chat Completions takes an image by its URL (a data URL too), not by a file id")
    detail = part.get("detail")
    return {"type": "image_url", "image_url": {"url": url} if detail is None else {"url": url, "detail": detail}}


def _file(part: Item) -> Item:
    given = {name: part[name] for name in ("file_data", "file_id", "filename") if part.get(name) is not None}
    if not given.keys() & {"file_data", "file_id"}:
        raise UserError("Chat Completions takes a file by its data or its id, not by a URL")
    return {"type": "file", "file": given}


def _as_it_is(part: Item) -> Item:
    return part


_PARTS: dict[str, Callable[[Item], Item]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "input_image": _image,
    "input_file": _file,
    "input_audio": _as_it_is,
    # Written in this API's own words already.
    "image_url": _as_it_is,
    "file": _as_it_is,
}
