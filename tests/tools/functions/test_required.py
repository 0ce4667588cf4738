"""Of what every match is said to hold, it holds one."""

from __future__ import annotations

import re
import warnings

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keyturn.tools.functions.required import required_texts
from tests.effort import some
from tests.table import each


@each(
    ("pattern", "texts"),
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
        ("a|b", "a b"),
        ("TODO|FIXME", "TODO FIXME"),
        (r"\b(?:TODO|FIXME)\b:?", "TODO FIXME"),
        ("(?P<name>one|two)+x", "one two"),
        ("((ab|cd)e|fgh)i", "ab cd fgh"),
        ("(one|two)?three", "three"),
        ("one|[0-9]", ""),
        ("one||two", ""),
        ("|".join(f"word{number}" for number in range(9)), ""),
        ("(?=long)x", "x"),
        ("(?!long)x", "x"),
        ("(?<!long)x", "x"),
        ("(?i)abc", ""),
        (r"\x41b", ""),
        (r"(a)\1", ""),
        (r"\bword\b", "word"),
        ("^start", "start"),
        ("ab+?c", "ab"),
        ("[", ""),
        ("(abc", ""),
        ("abc)", ""),
        ("(" * 9 + "x" + ")" * 9, "x"),
        ("(" * 5000 + "x" + ")" * 5000, ""),
    ],
)
def test_what_is_plain(pattern: str, texts: str) -> None:
    assert " ".join(required_texts(pattern)) == texts


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
        "(?=",
        "(?!",
        "(?P<n>",
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


@settings(max_examples=some(600), deadline=None)
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
        texts = required_texts(pattern)
        assert not texts or any(needed in text for needed in texts)
