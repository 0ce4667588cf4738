"""Docstrings in, descriptions out: three styles, and none."""

from __future__ import annotations

import pytest

from keyturn.tools.functions.docstrings import Docstring, DocstringStyle, read_docstring
from tests.table import each

GOOGLE = """Book a room.

    The room is held
    for an hour.

    It can be cancelled.

    Args:
        guest (str): Who comes:
            first and last name.
        nights: How many.
        *extras: What else.
        **notes: Anything.

    Returns:
        A number.

    Raises:
        ValueError: If there is none.
    """

NUMPY = """Book a room.

    The room is held
    for an hour.

    It can be cancelled.

    Parameters
    ----------
    guest : str
        Who comes:
        first and last name.
    nights, beds : int, optional
        How many.
    *extras
        What else.

    Returns
    -------
    int
        A number.
    """

SPHINX = """Book a room.

    The room is held
    for an hour.

    It can be cancelled.

    :param str guest: Who comes:
        first and last name.
    :param nights: How many.
    :type nights: int
    :param \\*extras: What else.
    :returns: A number.
    :raises ValueError: If there is none.
    """

BODY = "Book a room.\n\nThe room is held\nfor an hour.\n\nIt can be cancelled."
GUEST = "Who comes:\nfirst and last name."


@each("style", ["given", "found"])
@each(
    ("name", "text", "more"),
    [
        ("google", GOOGLE, {"notes": "Anything."}),
        ("numpy", NUMPY, {"beds": "How many."}),
        ("sphinx", SPHINX, {}),
    ],
)
def test_each_style_says_the_same(name: DocstringStyle, text: str, more: dict[str, str], style: str) -> None:
    read = read_docstring(text, name if style == "given" else None)
    assert read.description == BODY
    assert read.parameters == {"guest": GUEST, "nights": "How many.", "extras": "What else."} | more


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert read_docstring(text) == Docstring()


def test_prose_without_sections_is_all_description() -> None:
    text = "Just: text.\n\nWith a note: see below:\n\n    indented"
    assert read_docstring(text) == Docstring(text)


def test_a_section_on_the_first_line_is_a_section() -> None:
    assert read_docstring("\n    Args:\n        x: The x.\n    ") == Docstring("", {"x": "The x."})


def test_a_section_right_after_the_summary() -> None:
    assert read_docstring("Go.\nArgs:\n    x: The x.") == Docstring("Go.", {"x": "The x."})


def test_parameters_without_a_text_are_left_out() -> None:
    assert read_docstring(":param x:\n:param y: The y.").parameters == {"y": "The y."}


def test_what_cannot_be_read_is_all_description() -> None:
    text = "Go.\n\n:param: nothing follows"
    assert read_docstring(text, "sphinx").description.startswith("Go.")


def test_the_style_given_is_the_style_used() -> None:
    assert read_docstring(GOOGLE, "sphinx").parameters == {}


def test_the_style_most_marks_speak_for_wins() -> None:
    text = "Go.\n\nExamples:\n    one\n\n:param x: The x.\n:param y: The y."
    assert read_docstring(text).parameters == {"x": "The x.", "y": "The y."}
