"""What every match is said to hold, every match holds."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keyturn.tools.required import required_text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("abc", "abc"),
        (r"def \w+", "def "),
        (r"a\.b", "a.b"),
        ("ab*c", "a"),
        ("abc?d", "ab"),
        ("ab+cd", "ab"),
        ("ab{2,3}c", "ab"),
        ("ab{0,3}c", "a"),
        ("ab{,3}c", "a"),
        ("a(bc|d)ef", "ef"),
        ("(?:long)?x", "x"),
        ("[abc]long", "long"),
        ("[]]x", "x"),
        ("a|b", ""),
        ("(?i)abc", ""),
        (r"\x41b", ""),
        (r"\bword\b", "word"),
        ("^start", "start"),
        ("[", ""),
    ],
)
def test_what_is_plain(pattern: str, text: str) -> None:
    assert required_text(pattern) == text


PIECES = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        ".",
        "*",
        "+",
        "?",
        "{2}",
        "{0,1}",
        "{",
        "}",
        "(",
        ")",
        "(?:",
        "|",
        "[ab]",
        "[^a]",
        "\\w",
        "\\.",
        "^",
        "$",
        "\\",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join), st.text(st.sampled_from("ab.{}"), max_size=12))
def test_a_match_holds_it(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = re.search(pattern, text)
        except re.error:
            assume(False)
            return
    if found is not None:
        assert required_text(pattern) in text
