"""Whatever a tool returned, the model reads something, and what was cut or left out shows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from keyturn.tools.outputs import (
    MAX_DATA,
    MAX_TEXT,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    readable,
    rendered,
)
from tests.table import each


class Model(BaseModel):
    x: int = 1


@dataclass
class Data:
    y: int = 2


class Mute:
    def __str__(self) -> str:
        raise LookupError("password=hunter2")


@each(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (None, "None"),
        (3, "3"),
        (True, "True"),
        ({"a": 1}, "{'a': 1}"),
        ([1, "b"], "[1, 'b']"),
        ([], "[]"),
        (Model(), "x=1"),
        (Data(), "Data(y=2)"),
        (b"abc", "b'abc'"),
        (float("nan"), "nan"),
        ({"type": "file", "name": "x"}, "{'type': 'file', 'name': 'x'}"),
        ({"type": "text", "text": "q", "lang": "en"}, "{'type': 'text', 'text': 'q', 'lang': 'en'}"),
        ({"type": "text", "text": 3}, "{'type': 'text', 'text': 3}"),
        ({"type": "image"}, "{'type': 'image'}"),
        ([{"type": "text", "text": "q"}, "x"], "[{'type': 'text', 'text': 'q'}, 'x']"),
    ],
)
def test_a_value_is_its_text(value: Any, text: str) -> None:
    assert rendered(value) == text


@each(
    ("value", "parts"),
    [
        (ToolOutputText("t"), [{"type": "input_text", "text": "t"}]),
        ({"type": "text", "text": "q"}, [{"type": "input_text", "text": "q"}]),
        (
            [ToolOutputText(text="t"), ToolOutputImage(image_url="http://x", detail="low")],
            [{"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": "http://x", "detail": "low"}],
        ),
        ([{"type": "image", "file_id": "f"}], [{"type": "input_image", "file_id": "f"}]),
        (
            ToolOutputFileContent(file_data="aGk=", filename="f.txt"),
            [{"type": "input_file", "file_data": "aGk=", "filename": "f.txt"}],
        ),
        ({"type": "file", "file_url": "http://x", "file_id": None}, [{"type": "input_file", "file_url": "http://x"}]),
    ],
)
def test_parts_are_parts(value: Any, parts: Any) -> None:
    assert rendered(value) == parts


def test_a_value_without_a_text_is_told_and_not_quoted() -> None:
    text = rendered(Mute())
    assert "The tool ran" in text
    assert "LookupError" in text
    assert "hunter2" not in text
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "RecursionError" in rendered(deep)
    circle: list[Any] = []
    circle.append(circle)
    assert rendered(circle) == "[[...]]"


def test_a_huge_text_is_cut_in_plain_sight() -> None:
    text = "é" * MAX_TEXT
    cut = readable(text)
    data = text.encode()
    assert len(cut.encode()) < MAX_TEXT + 200
    assert cut.endswith(f"[cut here: {len(data)} bytes in all, SHA-256 {sha256(data).hexdigest()}]")
    assert readable("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert "cut here" in str(rendered([ToolOutputText("x" * (MAX_TEXT + 1))]))


def test_a_huge_file_is_left_out_in_plain_sight() -> None:
    data = "A" * (MAX_DATA + 1)
    (part,) = rendered(ToolOutputFileContent(file_data=data))
    assert part["type"] == "input_text"
    assert f"{MAX_DATA + 1} characters" in part["text"]
    assert sha256(data.encode()).hexdigest() in part["text"]


@given(st.text(st.characters(exclude_categories=[])))
def test_every_text_can_be_logged_and_sent(text: str) -> None:
    sent = readable(text)
    assert sent.encode().decode() == json.loads(json.dumps(sent))
    assert sent == text or "?" in sent
