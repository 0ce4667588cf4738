"""A part of a file as numbered lines, whatever the file is."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyturn import FileProblem, Workspace
from keyturn.tools.filesystem import numbered_lines


@pytest.fixture
def files(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def write(files: Workspace, data: bytes) -> None:
    Path(files.root, "f").write_bytes(data)


@pytest.mark.each
@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"one\ntwo\n", "     1\tone\n     2\ttwo"),
        (b"one\r\ntwo", "     1\tone\n     2\ttwo"),
        (b"\n\nx", "     1\t\n     2\t\n     3\tx"),
        (b"", "(the file is empty)"),
        ("é\u2028日本\n".encode(), "     1\té\u2028日本"),
    ],
)
def test_lines_have_numbers(files: Workspace, data: bytes, shown: str) -> None:
    write(files, data)
    assert files.lines("f") == shown


def test_what_is_left_out_is_said(files: Workspace) -> None:
    write(files, b"".join(b"line %d\n" % number for number in range(1, 3001)))
    shown = files.lines("f").split("\n")
    assert (len(shown), shown[1999]) == (2001, "  2000\tline 2000")
    assert shown[2000] == "(2000 lines shown; the file goes on: offset=2000 shows more)"
    assert files.lines("f", 2999) == "  3000\tline 3000"
    assert files.lines("f", 2998, 1).endswith("(1 line shown; the file goes on: offset=2999 shows more)")
    with pytest.raises(FileProblem, match="only 3000 lines"):
        files.lines("f", 3000)


@pytest.mark.parametrize(("offset", "limit"), [(-1, 1), (0, 0)])
def test_impossible_parts_are_refused(files: Workspace, offset: int, limit: int) -> None:
    write(files, b"x\n")
    with pytest.raises(FileProblem, match="offset"):
        files.lines("f", offset, limit)


@pytest.mark.parametrize("char", ["x", "é", "日"])
def test_a_long_line_is_cut_in_plain_sight(files: Workspace, char: str) -> None:
    write(files, f"{char * 100_000}\nnext\n".encode())
    first, second = files.lines("f").split("\n")
    assert first.startswith(
        f"     1\t{char * 2000}... (the line is cut here: it has {100_000 * len(char.encode()) + 1} bytes)"
    )
    assert second == "     2\tnext"


def test_much_text_is_shown_in_parts(files: Workspace) -> None:
    write(files, b"".join(b"%04d %s\n" % (number, b"x" * 1000) for number in range(500)))
    shown = files.lines("f")
    assert len(shown) < 110_000
    assert "the file goes on: offset=" in shown


def test_a_file_of_any_size_is_read_where_it_is_asked(files: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(files.root, "f").open("wb") as file:
        for _ in range(200):
            file.write(b"y" * 79 + b"\n" + (b"x" * 79 + b"\n") * 1000)
    assert files.lines("f", 1001, 1).startswith("  1002\ty")
    monkeypatch.setattr(numbered_lines, "_FAR", 1 << 20)
    with pytest.raises(FileProblem, match="too far"):
        files.lines("f", 100_000)


@pytest.mark.parametrize("data", [b"ok\n\0\n", b"ok\n\xff\n", b"\xff\xfea\0", b"\0" * 70_000])
def test_what_is_no_text_is_not_shown(files: Workspace, data: bytes) -> None:
    write(files, data)
    with pytest.raises(FileProblem, match=r"UTF|binary"):
        files.lines("f")
