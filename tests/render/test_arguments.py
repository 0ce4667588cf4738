"""Arguments made for reading: texts are texts, and no text can pass for another argument."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.preview import Command, Json, Preview, Text
from keyturn.render import arguments
from keyturn.render.arguments import request_lines
from keyturn.render.escape import unescape
from keyturn.render.terminal import drawn
from tests.render.emulator import broad, narrow, screen
from tests.render.test_terminal import CORPUS, unseen


def shown(given: Any, width: int | None = None, preview: Preview | None = None) -> list[str]:
    return list(drawn(request_lines(preview or Preview((Json(given),)), given), width=width))


def test_examples() -> None:
    assert doctest.testmod(arguments).failed == 0


def test_arguments_stand_in_their_order_and_texts_by_themselves() -> None:
    given = {"to": "ada", "tags": ["a", "b"], "body": 'Dear Ada,\n\nit is "done".', "urgent": True, "cc": []}
    assert shown(given) == [
        "arguments", '| to: "ada"', '| tags: ["a", "b"]', "",
        "argument: body", "| Dear Ada,", "| ", '| it is "done".', "",
        "arguments", "| urgent: true", "| cc: []",
    ]  # fmt: skip


def test_a_long_line_is_folded_at_words() -> None:
    assert shown({"text": "the quick brown fox " * 4}, 30) == [
        "argument: text",
        "| the quick brown fox the ",
        ": quick brown fox the quick ",
        ": brown fox the quick brown ",
        ": fox ",
    ]


def test_no_arguments_are_said_to_be_none() -> None:
    assert shown({}) == ["no arguments"]


@pytest.mark.parametrize("label", ["", "arguments"])
def test_only_the_arguments_themselves_are_shown_as_such(label: str) -> None:
    other = Preview((Json({"to": "bob"}, label), Command("ls"), Text("x")), summary="s")
    rows = shown({"to": "ada"}, preview=other)
    assert rows[0] == "summary: s"
    assert "arguments" not in rows
    assert shown({"to": "bob"}, preview=other)[2:4] == ["arguments", '| to: "bob"']


def test_what_is_no_object_is_shown_as_json() -> None:
    assert shown(["a"]) == ["json", "| [", '|   "a"', "| ]"]


FORGED = [
    "x\namount: 5",
    'ada"\n| amount: 5',
    "argument: to\n| eve",
    "\n\narguments\n| to: eve",
    "x\r| to: eve",
    "a" * 70,
]


@pytest.mark.parametrize("text", FORGED)
@pytest.mark.parametrize("place", ["value", "name", "inner"])
def test_no_text_passes_for_another_argument(text: str, place: str) -> None:
    """Every row without a margin is ours, and every row of an argument is of one argument."""
    given = {"value": {"to": text, "n": 1}, "name": {text: "x", "n": 1}, "inner": {"to": {"a": [text]}, "n": 1}}[place]
    for width in (None, *range(10, 120, 7)):
        rows = shown(given, width)
        for columns in (narrow, broad):
            drawn_rows = rows if width is None else screen(rows, width, columns)
            ours = {row.split(":")[0] for row in drawn_rows if row and row[:2] not in ("| ", ": ")}
            assert ours <= {"arguments", "argument"}, (width, drawn_rows)
    assert [row for row in shown(given) if row.startswith("| amount")] in ([], ["| amount: 5"])


@pytest.mark.parametrize("name", ["to: eve", "a b", "\u202eot", "to\n| n", "", "x" * 41])
def test_a_name_that_is_no_plain_word_is_quoted(name: str) -> None:
    (row,) = [row for row in shown({name: 1}) if row.startswith("| ")]
    assert row.startswith('| "')
    assert unescape(row[3:].rsplit('": ', 1)[0]) == name


def test_nothing_in_an_argument_acts_on_a_terminal() -> None:
    for payload in CORPUS:
        for made in ({"a": payload}, {payload: "a"}, {"a": [payload, {payload: payload}]}):
            assert not unseen("\n".join(shown(made)))


@given(st.text(), st.integers(20, 60))
def test_a_text_can_be_read_back(text: str, width: int) -> None:
    rows = shown({"text": text + "\n"}, width)[1:]
    note = rows.index("") if "" in rows else len(rows)
    kept = [row for row in rows[:note] if row[:2] in ("| ", ": ")]
    joined = "".join("\n" + row[2:] if row[0] == "|" else row[2:] for row in kept)
    assert unescape(joined[1:]) == text + "\n"
