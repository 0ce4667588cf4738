"""Convert what a tool returned to what the model reads: a text, or a list of text, image and file parts.

Rendering never fails, since the tool has already run: what cannot be turned into text is told in words,
and what is too large is cut in plain sight. It must not know calls, runs or which tool it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any, Literal, NotRequired, TypedDict, cast

from ..core.errors import UserError
from ..core.items import Item
from ..user_code import class_name, run_callback

MAX_TEXT = 1 << 20
MAX_DATA = 32 << 20

Detail = Literal["low", "high", "auto"]


class _Part:
    """Gives the parts of a tool's output the two methods by which programs read them as data."""

    __slots__ = ()

    def model_dump(self, *, exclude_none: bool = False, mode: str = "python") -> dict[str, Any]:
        """Return the part as a plain dict, which is JSON data in either mode."""
        if mode not in ("python", "json"):
            raise UserError(f"mode of model_dump must be 'python' or 'json', not {mode!r}")
        held = {each.name: getattr(self, each.name) for each in fields(cast("Any", self))}
        return {name: value for name, value in held.items() if not (exclude_none and value is None)}

    def model_dump_json(self, *, exclude_none: bool = False) -> str:
        """Return the part as a JSON text."""
        return json.dumps(self.model_dump(exclude_none=exclude_none), ensure_ascii=False, separators=(",", ":"))


@dataclass(slots=True)
class ToolOutputText(_Part):
    """Holds a text part of a tool's output.

    >>> ToolOutputText(text="done").type
    'text'
    """

    text: str
    type: Literal["text"] = "text"


@dataclass(slots=True)
class ToolOutputImage(_Part):
    """Holds an image part of a tool's output, by URL (a data URL too) or by the provider's file id.

    >>> ToolOutputImage(image_url="https://example.com/cat.png", detail="low").detail
    'low'
    """

    image_url: str | None = None
    file_id: str | None = None
    detail: Detail | None = None
    type: Literal["image"] = "image"


@dataclass(slots=True)
class ToolOutputFileContent(_Part):
    """Holds a file part of a tool's output, by its data (base64), its URL or the provider's file id.

    >>> ToolOutputFileContent(file_data="aGk=", filename="hi.txt").filename
    'hi.txt'
    """

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None
    type: Literal["file"] = "file"


class ToolOutputTextDict(TypedDict):
    """Holds a `ToolOutputText` as a plain dict.

    >>> ToolOutputTextDict(type="text", text="done")["text"]
    'done'
    """

    type: Literal["text"]
    text: str


class ToolOutputImageDict(TypedDict):
    """Holds a `ToolOutputImage` as a plain dict.

    >>> ToolOutputImageDict(type="image", file_id="file_1")["file_id"]
    'file_1'
    """

    type: Literal["image"]
    image_url: NotRequired[str]
    file_id: NotRequired[str]
    detail: NotRequired[Detail]


class ToolOutputFileContentDict(TypedDict):
    """Holds a `ToolOutputFileContent` as a plain dict.

    >>> ToolOutputFileContentDict(type="file", file_url="https://example.com/a.pdf")["type"]
    'file'
    """

    type: Literal["file"]
    file_data: NotRequired[str]
    file_url: NotRequired[str]
    file_id: NotRequired[str]
    filename: NotRequired[str]


# For each kind of part: the fields of which it needs one, and those it may have besides.
_PARTS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "text": (frozenset({"text"}), frozenset()),
    "image": (frozenset({"image_url", "file_id"}), frozenset({"detail"})),
    "file": (frozenset({"file_data", "file_url", "file_id"}), frozenset({"filename"})),
}


def rendered(value: Any) -> str | list[Item]:
    """Convert a tool's return value to the `output` of its result: parts where it is made of them, else `str(value)`.

    >>> rendered({"a": 1}), rendered(None), rendered(ToolOutputText("hi"))
    ("{'a': 1}", 'None', [{'type': 'input_text', 'text': 'hi'}])
    """
    if type(value) is str:
        return readable(value)
    parts = _parts(value)
    return _text(value) if parts is None else [_sent(part) for part in parts]


def readable(text: str) -> str:
    """Make a text fit for log and provider: no lone surrogates, and cut where it is longer than `MAX_TEXT`.

    The cut is marked with the full length and SHA-256, so that it shows and can be matched with the original.
    """
    if text.isascii() and len(text) <= MAX_TEXT:
        return text
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_TEXT:
        return data.decode()
    kept = data[:MAX_TEXT].decode("utf-8", "ignore")
    return f"{kept}\n[cut here: {len(data)} bytes in all, SHA-256 {sha256(data).hexdigest()}]"


def _text(value: object) -> str:
    try:
        return readable(run_callback(str, value))
    except Exception as error:
        # The tool has acted: the model must hear so, whatever became of the value.
        return f"The tool ran, but what it returned has no text ({type(value).__name__}: {class_name(error)})."


def _parts(value: object) -> list[dict[str, str]] | None:
    """Return the parts that a value is made of, or None for a value that is not made of parts only."""
    several = cast("list[Any]", value if isinstance(value, list) else [value])
    parts = [part for each in several if (part := _part(each)) is not None]
    return parts if parts and len(parts) == len(several) else None


def _part(value: object) -> dict[str, str] | None:
    """Return the fields of a part that are set, or None for any other value."""
    if isinstance(value, ToolOutputText | ToolOutputImage | ToolOutputFileContent):
        value = asdict(value)
    if not isinstance(value, Mapping):
        return None
    given = {name: each for name, each in cast("Mapping[Any, Any]", value).items() if each is not None}
    needs, may = _PARTS.get(str(given.get("type")), (frozenset[str](), frozenset[str]()))
    names = given.keys() - {"type"}
    # A dict of the user's own may well have a key "type": only one that is a part and nothing else counts.
    if not names & needs or names - needs - may or not all(isinstance(each, str) for each in given.values()):
        return None
    return cast("dict[str, str]", given)


def _sent(part: dict[str, str]) -> Item:
    """Convert a part to the Responses format."""
    if part["type"] == "text":
        return {"type": "input_text", "text": readable(part["text"])}
    for name, data in part.items():
        if len(data) > MAX_DATA:
            mark = f"{name} of {len(data)} characters, SHA-256 {sha256(data.encode('utf-8', 'replace')).hexdigest()}"
            return {"type": "input_text", "text": f"[left out, too large: {mark}]"}
    return {**part, "type": f"input_{part['type']}"}
