"""One text in place of another; what a workspace does with it is tested there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.tools.filesystem.problems import EditRefused
from keyturn.tools.filesystem.text_edit import edit_fault, replaced

TEXT = st.text(st.sampled_from("ab\n"), max_size=30)


@given(TEXT, TEXT, st.text(st.sampled_from("ab\n"), min_size=1, max_size=3), TEXT)
def test_one_place_is_replaced_and_nothing_else(before: str, after: str, old: str, new: str) -> None:
    text = before + old + after
    places = sum(text.startswith(old, at) for at in range(len(text)))
    try:
        made = replaced(text, old, new)
    except EditRefused:
        assert places != 1 or old == new
    else:
        assert made == (before + new + after, 1)
        assert places == 1


@given(TEXT, st.text(st.sampled_from("ab\n"), min_size=1, max_size=3))
def test_every_place_is_replaced(text: str, old: str) -> None:
    if old in text:
        made, count = replaced(text, old, "-", every=True)
        assert (made, count) == (text.replace(old, "-"), text.count(old))


@given(TEXT, st.text(st.sampled_from("ab\n"), min_size=1, max_size=3), st.text(st.sampled_from("xy\n"), max_size=5))
def test_line_feeds_stand_for_the_newlines_of_the_text(text: str, old: str, new: str) -> None:
    """What is said with LF of a text with CRLF does there what it does to the same text with LF."""
    text += "\n"  # without any there is nothing to go by
    crlf = text.replace("\n", "\r\n")
    try:
        expected = replaced(text, old, new)[0].replace("\n", "\r\n")
    except EditRefused:
        expected = None
    try:
        made = replaced(crlf, old, new)[0]
    except EditRefused:
        made = None
    assert made == expected


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("one\r\ntwo\r\n", "two", "two\nthree", "one\r\ntwo\r\nthree\r\n"),
        ("one\r\ntwo\r\n", "\ntwo", "\n2\n3", "one\r\n2\r\n3\r\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", "1\r\n2\r\n"),
        ("one\r\ntwo\n", "two", "2\n3", "one\r\n2\n3\n"),
        ("one\r\ntwo\nthree\n", "one\ntwo", "1\n2", "1\r\n2\nthree\n"),
    ],
)
def test_new_lines_end_as_the_others_do(text: str, old: str, new: str, after: str) -> None:
    assert replaced(text, old, new)[0] == after


def test_an_edit_of_line_breaks_alone_is_refused() -> None:
    with pytest.raises(EditRefused, match="line breaks"):
        replaced("a\r\nb\r\n", "a\r\n", "a\n")


@pytest.mark.parametrize(
    ("text", "old", "why"),
    [
        ("one\n\ttwo", "one\n  two", "only its spaces or line breaks differ"),
        ("one", "two", "Read the file again"),
        ("a\n" * 20, "a", "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..."),
        ("a a\na", "a", "lines 1, 2."),
    ],
)
def test_what_is_not_clear_is_said(text: str, old: str, why: str) -> None:
    with pytest.raises(EditRefused) as refused:
        replaced(text, old, "x")
    assert why in str(refused.value)


def test_an_edit_of_nothing_is_a_fault_whatever_the_text() -> None:
    assert edit_fault("a", "b") is None
    assert "empty" in str(edit_fault("", "b"))
    assert "same" in str(edit_fault("a", "a"))
