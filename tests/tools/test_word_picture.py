"""Words as a picture: a proper PNG, in which the words can be seen, and from which they can be read back."""

from __future__ import annotations

import base64
import struct
import textwrap
import zlib

import pytest

from keyturn.tools.word_picture import PNG, drawn, written
from tests.table import each


def chunks(url: str) -> dict[bytes, bytes]:
    """What is in the file, each part checked."""
    data = base64.b64decode(url.removeprefix(PNG))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, place = dict[bytes, bytes](), 8
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        name, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        (check,) = struct.unpack_from(">I", data, place + 8 + length)
        assert check == zlib.crc32(name + body)
        found[name], place = body, place + length + 12
    return found


def seen(text: str) -> tuple[int, int, list[str]]:
    """Width, height, and the picture's dots as text, one character for four pixels."""
    found = chunks(drawn(text))
    width, height, depth, colours = struct.unpack_from(">IIBB", found[b"IHDR"])
    assert (depth, colours) == (8, 0)
    pixels = zlib.decompress(found[b"IDAT"])
    assert len(pixels) == (width + 1) * height
    rows = [pixels[(width + 1) * row + 1 : (width + 1) * (row + 1)] for row in range(0, height, 2)]
    return width, height, ["".join(" " if dot else "#" for dot in row[::2]) for row in rows]


def test_letters_can_be_seen() -> None:
    _, _, rows = seen("Hi!")
    drawing = [row.strip("\n")[8:26].rstrip() for row in rows[8:15]]
    assert drawing == [
        "#   #   #     #",
        "#   #         #",
        "#   #  ##     #",
        "#####   #     #",
        "#   #   #     #",
        "#   #   #",
        "#   #  ###    #",
    ]


@each("text", ["", "no", "a\n\nb", "IDAT iTXt", "schön 東京 🔑", "\x00\x1b[2J", "long " * 5000, "\ud800"])
def test_every_text_can_be_read_back(text: str) -> None:
    width, height, _ = seen(text)
    assert (width, height <= 1000) == (800, True), "it is no larger than a screen"
    assert written(drawn(text)) == text.encode("utf-8", "replace").decode()


def test_no_more_is_drawn_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of tabs was wrapped row by row, each time with a copy of what was left."""
    wrapped = list[int]()
    wrap = textwrap.wrap
    monkeypatch.setattr(textwrap, "wrap", lambda text, width: (wrapped.append(len(text)), wrap(text, width))[1])
    for text in ("\t" * 50_000, "word " * 20_000):
        wrapped.clear()
        _, _, rows = seen(text)
        assert sum(wrapped) <= 2 * 64 * 40
        assert rows == seen(text[:6_000])[2], "what is seen of it is what was seen"


def test_other_pictures_say_nothing() -> None:
    assert written(PNG + base64.b64encode(b"\x89PNG\r\n\x1a\nno").decode()) is None
    assert written("data:image/jpeg;base64,aGk=") is None
