"""On a terminal: no byte of a tool's data acts, moves or passes for ours."""

import doctest
import io
import itertools
import re
import unicodedata
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.errors import BadJson, UserError
from keyturn.core.preview import Block, Command, Diff, Json, Preview, Text
from keyturn.render import diff, layout, terminal
from keyturn.render.escape import unescape
from keyturn.render.terminal import render, wants_colour
from tests.effort import AT_LENGTH, part
from tests.render.emulator import broad, narrow, screen
from tests.render.texts import chunks, everywhere, notables, unseen

COLOUR = re.compile(r"\x1b\[\d{1,2}m")

# Payloads by what they would do on a terminal that printed them. None may reach it.
ACTS = [
    "\x1b]0;title\x07", "\x1b]2;title\x1b\\", "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07", "\x1b]1337;File=inline=1:AAAA\x07", "\x1b]4;1;?\x07", "\x1b]10;?\x07",
    "\x1b]9;note\x07", "\x1bP$q\"p\x1b\\", "\x1bP+q544e\x1b\\", "\x1b_Gi=1,a=T;AAAA\x1b\\", "\x1b^pm\x1b\\",
    "\x1bX sos\x1b\\", "\r\x1b[2K", "\x1b[2J", "\x1b[H", "\x1b[1A\x1b[2K", "\x1b[10D", "\x1b[999C", "\x1b[s\x1b[u",
    "\x1b7\x1b8", "\x1b[8m", "\x1b[0m", "\x1b[30;40m", "\x1b[38;2;0;0;0m", "\x1b[?1049h", "\x1b[?25l", "\x1b[6n",
    "\x1b[c", "\x1b[>c", "\x1b[21t", "\x1b[18t", "\x1b[?2004l", "\x1bc", "\x1b(0", "\x1b#8", "\x1b[4i", "\x1b[3J",
    "\x1b[L", "\x1b[M", "\x1b[5@", "\x1b[5P", "\x1b[5X", "\x1b[1;1r", "\x1b[20h", "\x1b%@", "\x1bN", "\x1b=", "\x1b>",
    "\x9b2J", "\x9d0;title\x9c", "\x90q\x9c", "\x84", "\x85", "\x8d", "\x98", "\x9e", "\x9f", "\r", "\b" * 20, "\x7f",
    "\x0b", "\x0c", "\x00", "\x07", "\x05", "\x0e", "\x0f", "\x11", "\x13", "\x18", "\x1a", "\u202e", "\u202d\u202c",
    "\u2066\u2069", "\u200e\u200f", "\u061c", "\u2028", "\u2029", "\u200b" * 9, "\u2800" * 80, "\u3000" * 80,
    "\u00a0" * 80, "\u0336" * 30, "a" + "\u0489" * 30, "\U000e0072\U000e006d", "\ufff9a\ufffab\ufffb",
]  # fmt: skip
AROUND = [
    "{}", "ls {} ok", "{}\n", "\n{}", "ls\n{}command: ls", "é{}é", "\\{}", "{0}{0}", "\x1b{}", "{}\u0301", "[{}]",
    '"{}"',
]  # fmt: skip
CORPUS = [frame.format(act) for frame, act in itertools.product(AROUND, ACTS)]


def content(block: Block) -> str:
    """What the rows of one block say, margins and our headings taken off."""
    rows = render(Preview((block,))).split("\n")
    return "\n".join(row[2:] for row in rows if row.startswith("| "))


@pytest.mark.parametrize("module", [terminal, layout, diff])
def test_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_notable_code_points_in_every_field() -> None:
    for chunk in notables():
        assert not unseen(render(everywhere(chunk)))


@pytest.mark.sweep
def test_every_code_point_is_safe_and_can_be_read_back() -> None:
    for chunk in chunks():
        shown = render(Preview((Text(chunk),)))
        assert not unseen(shown)
        rows = shown.split("\n")[1:]
        assert unescape("\n".join(row[2:] for row in rows if row.startswith("| "))) == chunk


def test_every_kind_of_block_can_be_read_back() -> None:
    for chunk in notables():
        assert unescape(content(Command(chunk))) == chunk
        assert unescape(content(Json(chunk))[1:-1]) == chunk
        key, value = content(Json({chunk: "v"})).split("\n")[1].rsplit(": ", 1)
        assert (unescape(key.strip()[1:-1]), value) == (chunk, '"v"')
        added = [row[1:] for row in content(Diff("", chunk)).split("\n") if row[0] == "+"]
        assert unescape("\n".join(added)) == chunk


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(set(CORPUS)) >= 1000


def test_ansi_and_osc_payloads_are_shown_and_do_nothing() -> None:
    for payload in part(CORPUS):
        preview = everywhere(payload)
        assert not unseen(render(preview))
        coloured = render(preview, colour=True, width=60)
        assert not unseen(COLOUR.sub("", coloured))
        assert unescape(content(Command(payload))) == payload


def test_only_our_colours_are_in_the_output() -> None:
    coloured = render(everywhere("a\x1b[31mb"), colour=True)
    assert set(COLOUR.findall(coloured)) <= {"\x1b[0m", *(f"\x1b[{code}m" for code in terminal._CODES.values())}
    assert COLOUR.sub("", coloured) == render(everywhere("a\x1b[31mb"))
    # Every row closes what it opens: a pager that shows one row shows it right.
    assert all(row.count("\x1b") in {0, 2} for row in coloured.split("\n"))


FORGED = [
    "Approved.", "  Approved.", "command: ls", "\\n\\ncommand", "\n\ncommand\nin: /srv\n| ls", "| ", ": ", "a  approve",
    "decide > ", "note: nothing changes", "\\ no newline at the end of the text", "\tApproved.", "\rApproved.",
    "日本語 ok", "ก็" * 4, "का\u093e\u093e\u093e" * 30, "e\u0301\u0302\u0303\u0304" * 40, "👍" * 9,
    "\u0301Approved.", "",
]  # fmt: skip


def test_data_never_begins_where_our_headings_do() -> None:
    """M5: on a screen of each width, whatever the data, what stands at the left edge is what stands there for `x`."""
    for width in (width for width in range(1, 201) if AT_LENGTH or width < 24 or width % 20 == 0):
        if width < terminal.NARROWEST:
            with pytest.raises(UserError, match="no room for a margin"):
                render(everywhere("x"), width=width)
            continue
        ours = heads("", width, narrow)
        fillers = ("." * (width - 2), "日" * (width // 2))
        texts = [*FORGED, *map("".join, itertools.product(fillers, FORGED[:3]))] if width % 5 == 0 else fillers
        for text in texts:
            for columns in (narrow, broad):
                assert heads(f"{text}  Approved.", width, columns) == ours, (width, text, columns)


def heads(text: str, width: int, columns: object) -> list[str]:
    """What begins the rows of a screen that show a text in every field, by the words before the data that they name."""
    *others, _ = everywhere(f"x{text}").blocks
    diff = Diff(f"x{text}\nkept\n", f"kept\nx{text}\n", f"x{text}", f"x{text}")
    preview = Preview((*others[:2], diff, Json({text: [text]}, f"x{text}")), summary=f"x{text}")
    found = screen(render(preview, width=width).split("\n"), width, columns)
    return [row.split(":")[0] for row in found if row and row[:2] not in {"| ", ": "}]


@given(st.text(alphabet="ab \n\\:|é日\u0301\u0938\u093e[](){}"), st.integers(10, 30))
def test_data_never_stands_where_our_headings_do(text: str, width: int) -> None:
    for columns in (narrow, broad):
        assert heads(text, width, columns) == heads("", width, columns)


def test_a_forged_heading_stays_behind_the_margin() -> None:
    shown = render(Preview((Text("command: ls\n\ncommand\nin: /srv"),)))
    assert shown == "text\n| command: ls\n| \n| command\n| in: /srv"


@given(st.text(), st.integers(10, 40))
def test_a_folded_row_fits(text: str, width: int) -> None:
    rows = render(Preview((Text(text),)), width=width).split("\n")
    assert all(sum(map(columns, row)) <= width for row in rows)


def columns(char: str) -> int:
    """As most terminals count: two for what East Asian fonts draw wide, none for a mark."""
    if unicodedata.category(char)[0] == "M":
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


@given(st.text(alphabet=st.characters(max_codepoint=0x58F) | st.sampled_from("日\n\u0301👍")), st.integers(10, 40))
def test_a_folded_text_loses_nothing(text: str, width: int) -> None:
    rows = render(Preview((Text(text),)), width=width).split("\n")[1:]
    joined = "".join("\n" + row[2:] if row[0] == "|" else row[2:] for row in rows)
    assert unescape(joined[1:]) == text


def test_padding_cannot_push_a_command_out_of_sight() -> None:
    shown = render(Preview((Command("ls" + " " * 200 + "; rm -rf /"),)), width=40)
    assert "; rm -rf /" in shown
    assert all(len(row) <= 40 for row in shown.split("\n"))


def test_markdown_and_html_are_literal() -> None:
    for text in ("```\nfence", "<script>alert(1)</script>", "[x](javascript:alert(1))", "![x](https://evil.example/b)"):
        assert content(Text(text)) == text


def test_blocks_as_they_look() -> None:
    preview = Preview(
        (
            Text("Dear Ann,\n\nbye", "body"),
            Command("make\nmake test", cwd="/srv/a b"),
            Diff("a\nb\nc\n", "a\nB\nc", path="x.toml"),
            Json({"b": [1, -0.0, 1e99], "a": {"t": True, "n": None}, "e": [[], {}], 'q"': 'say "hi"\n'}),
        ),
        summary="send",
    )
    assert render(preview).split("\n") == [
        "summary: send", "",
        "text: body", "| Dear Ann,", "| ", "| bye", "",
        "command", "in: /srv/a b", "| make", "| make test", "",
        "diff", "path: x.toml", "|  a", "| -b", "| -c", "| +B", "| +c", "\\ no newline at the end of the text", "",
        "json", "| {",
        '|   "b": [1, -0.0, 1e+99],', '|   "a": {"t": true, "n": null},', '|   "e": [[], {}],',
        '|   "q\\"": "say \\"hi\\"\\n"', "| }",
    ]  # fmt: skip


def test_a_limit_cuts_each_text_with_a_mark() -> None:
    shown = render(everywhere("secret plan"), limit=6)
    assert "plan" not in shown
    assert shown.count("\\[cut: 5 of 11 characters, sha256 of all ") == 14


def test_letters_from_right_to_left_are_noted() -> None:
    note = "note: some letters run from right to left; rows that hold them may be drawn out of order"
    assert render(Preview((Text("\u05d0 1 2"), Text("a")))).split("\n")[2:4] == [note, ""]
    assert note not in render(Preview((Text("привет"),)))


@pytest.mark.each
@pytest.mark.parametrize("value", [(1,), {1: 2}, [float("nan")], object(), {"a": b"x"}])
def test_what_is_not_json_is_not_shown_as_json(value: object) -> None:
    with pytest.raises(BadJson):
        render(Preview((Json(value),)))


def test_there_is_no_fifth_kind_of_block() -> None:
    other: Any = object()
    with pytest.raises(AssertionError):
        render(Preview((other,)))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "wanted"),
    [(Terminal(), {}, True), (Terminal(), {"NO_COLOR": "1"}, False), (Terminal(), {"NO_COLOR": ""}, True),
     (Terminal(), {"TERM": "dumb"}, False), (io.StringIO(), {"TERM": "xterm"}, False)],
)  # fmt: skip
def test_colour_is_off_where_nobody_wants_it(stream: io.StringIO, environ: dict[str, str], wanted: bool) -> None:
    assert wants_colour(stream, environ) is wanted


# ------------------------------------------------------------------------------------------------------ differences

LINES = st.lists(st.sampled_from(["a", "b", "", "}", " a", "c\r", "u1", "u2", "u3", "u4"]), max_size=30).map("\n".join)


@given(LINES, LINES)
def test_a_difference_holds_both_texts(before: str, after: str) -> None:
    script = list(diff.script(before, after))
    assert "".join(line for sign, line in script if sign in " -") == before
    assert "".join(line for sign, line in script if sign in " +") == after


@given(LINES, LINES)
def test_rows_hold_every_change_and_count_what_they_leave_out(before: str, after: str) -> None:
    script = list(diff.script(before, after)) if before != after else []
    rows = list(diff.rows(before, after))
    shown = [(sign, text) for sign, text in rows if sign in "-+"]
    assert shown == [(sign, line.removesuffix("\n")) for sign, line in script if sign in "-+"]
    hidden = sum(int(text.split()[0]) for sign, text in rows if sign == "@")
    assert hidden + sum(sign == " " for sign, _ in rows) == sum(sign == " " for sign, _ in script)


def test_unchanged_lines_are_counted() -> None:
    before = "".join(f"{number}\n" for number in range(30))
    rows = ["".join(row) for row in diff.rows(before, before.replace("\n15\n", "\nfifteen\n"))]
    assert rows == ["@ 12 unchanged lines not shown", " 12", " 13", " 14", "-15", "+fifteen", " 16", " 17", " 18",
                    "@ 11 unchanged lines not shown"]  # fmt: skip


def test_lines_end_only_at_newlines() -> None:
    rows = content(Diff("a\rb\u2028c\x0bd\n", "a\rb\u2028c\x0be\n")).split("\n")
    assert rows == ["-a\\rb\\u{2028}c\\u{b}d", "+a\\rb\\u{2028}c\\u{b}e"]


def test_equal_texts_change_nothing() -> None:
    assert render(Preview((Diff("a\n", "a\n"),))) == "diff\nnote: nothing changes"
    assert render(Preview((Diff("a", "a\n"),))) == "diff\n| -a\n\\ no newline at the end of the text\n| +a"


@pytest.mark.timeout(120)
def test_texts_made_to_be_slow_are_not() -> None:
    many = 20_000
    reverse = "".join(f"{number}\n" for number in range(many)), "".join(f"{number}\n" for number in range(many, 0, -1))
    stagger = "".join(f"x\nu{number}\n" for number in range(many)), "x\n" * many
    gaps = [f"anchor{k}\n" + "".join(f"{shape.format(i)}\n" * 2 for i in range(40)) for k, shape in
            itertools.product(range(200), ["x{}", "y{}", "x{}"])]  # fmt: skip
    for before, after in (reverse, stagger, ("".join(gaps), "".join(reversed(gaps)))):
        assert next(diff.rows(before, after))
