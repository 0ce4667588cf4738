"""Convert the result of a remote tool to what the model reads: texts, images, files, or JSON.

What a model cannot read is named in words, so that nothing is left out unseen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from ..tools.outputs import ToolOutputFileContent, ToolOutputImage, ToolOutputText

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
NOTHING = "The tool gave no output."


class _Content(Protocol):
    """Is one part of a result of the MCP SDK, of any type."""

    type: str


class _Words(_Content, Protocol):
    """Is a text."""

    text: str


class _Media(_Content, Protocol):
    """Is a picture or a sound, as Base64."""

    mime_type: str
    data: str


class _Link(_Content, Protocol):
    """Names a resource that is elsewhere."""

    name: str
    description: str | None
    mime_type: str | None
    uri: str


class _Result(Protocol):
    """Is the answer of a call of a tool."""

    content: Sequence[_Content]
    structured_content: object


def value_of(result: _Result, *, structured: bool) -> Any:
    """Return a call's result as a tool's return value: one text, or a list of parts."""
    if result.structured_content is not None and (structured or not result.content):
        return json.dumps(result.structured_content, ensure_ascii=False)
    parts = [_part(content) for content in result.content]
    if not parts:
        return NOTHING
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], ToolOutputText) else parts


def _part(content: _Content) -> Any:
    made = _PARTS.get(content.type)
    return ToolOutputText(f"[content of type {content.type!r} left out]") if made is None else made(content)


def _text(content: _Words) -> Any:
    return ToolOutputText(content.text)


def _image(content: _Media) -> Any:
    if content.mime_type not in _IMAGES:
        return _left_out(content.type, content.mime_type, content.data)
    return ToolOutputImage(image_url=f"data:{content.mime_type};base64,{content.data}")


def _audio(content: _Media) -> Any:
    return _left_out(content.type, content.mime_type, content.data)


def _link(content: _Link) -> Any:
    about = [content.name, content.description, content.mime_type]
    return ToolOutputText(f"[resource {content.uri}: {', '.join(each for each in about if each)}]")


def _resource(content: Any) -> Any:
    resource = content.resource
    if getattr(resource, "text", None) is not None:
        return ToolOutputText(f"[resource {resource.uri}]\n{resource.text}")
    name = cast("str", resource.uri).rpartition("/")[2] or "resource"
    kind = resource.mime_type or "application/octet-stream"
    return ToolOutputFileContent(file_data=f"data:{kind};base64,{resource.blob}", filename=name)


def _left_out(kind: str, mime_type: str, data: str) -> Any:
    return ToolOutputText(f"[{kind} of type {mime_type!r} left out: {len(data) * 3 // 4} bytes]")


_PARTS: dict[str, Callable[[Any], Any]] = {
    "text": _text,
    "image": _image,
    "audio": _audio,
    "resource_link": _link,
    "resource": _resource,
}
