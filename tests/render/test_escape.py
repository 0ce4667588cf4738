"""Escaping shows everything, for every code point there is, and loses nothing."""

import doctest
import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.render import escape as module
from keyturn.render import names
from keyturn.render.escape import clip, escape, quote, reorders, unescape
from keyturn.render.names import mixed_script
from tests.render.texts import HIDDEN, every
from tests.table import each

# Unicode's Default_Ignorable_Code_Point, written down apart from the code it checks.
IGNORABLE = (
    "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8 "
    "1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)
IGNORED = {
    chr(point)
    for first, _, last in (span.partition("-") for span in IGNORABLE.split())
    for point in range(int(first, 16), int(last or first, 16) + 1)
}
TOKEN = re.compile(r"\\(?:[\\nrt]|u\{[0-9a-f]{1,6}\})|[^\\]")


def dangerous(chars: Iterable[str]) -> set[str]:
    """Return those that a reader could not see, or would see the effect of; a space is none."""
    return {char for char in chars if unicodedata.category(char) in HIDDEN or char in IGNORED} - {" "}


@cache
def marks() -> str:
    return "".join(char for char in every() if unicodedata.category(char)[0] == "M")


@cache
def stack() -> re.Pattern[str]:
    return re.compile(f"[{marks()}]{{5}}")


@pytest.mark.parametrize("checked", [module, names])
def test_examples(checked: ModuleType) -> None:
    assert doctest.testmod(checked).failed == 0


@pytest.mark.sweep
def test_every_code_point_one_by_one() -> None:
    text = every()
    written = escape(text, "")
    assert unescape(written) == text
    alone = {mark: escape("x" + mark, "")[1:] for mark in marks()}
    assert [mark for mark, shown in alone.items() if unescape(shown) != mark] == []
    hidden = dangerous(text)
    # Blanks that Unicode does not call so; the list is short on purpose.
    others = {
        char
        for char, shown in zip(text, TOKEN.findall(written), strict=True)
        if (alone.get(char, shown) != char) is not (char in hidden)
    }
    assert others <= module._BLANK | {"\\"} - hidden


@given(st.text() | st.text(alphabet='\\u{}nrt"0a \n\t\r\u0301\u202e\ud83d\ude00é'), st.sampled_from(["", "\n", "\n\t"]))
def test_every_text_can_be_read_back(text: str, keep: module.Keep) -> None:
    shown = escape(text, keep)
    assert unescape(shown) == text
    assert not dangerous(shown) - set(keep)
    assert unescape(quote(text)[1:-1]) == text


@given(st.text(alphabet='\\u{}nrt"0a \n\u0301\u202e'), st.text(alphabet='\\u{}nrt"0a \n\u0301\u202e'))
def test_two_texts_never_look_alike(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) is (one == other)
    assert (quote(one) == quote(other)) is (one == other)


def test_what_is_kept() -> None:
    assert escape("a\n\tb\r\n") == "a\n\\tb\\r\n"
    assert escape("a\n\tb\r", "\n\t") == "a\n\tb\\r"
    assert escape("a\n\tb\r", "") == "a\\n\\tb\\r"
    colour: Any = "\x1b"
    with pytest.raises(KeyError):
        escape("a", colour)


@each("text", ["", "plain text, 100 %", "naïve café", "привет", "日本語", "👍🏽", "नमस्ते", "e\u0301", "สวัสดีที่"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert escape(text) == text


@each(
    ("text", "shown"),
    [
        ("\x00\x07\b\x1b\x7f\x9b", "\\u{0}\\u{7}\\u{8}\\u{1b}\\u{7f}\\u{9b}"),
        ("a\u202eb\u2066c\u2069", "a\\u{202e}b\\u{2066}c\\u{2069}"),
        ("a\u200b\u200d\u2060\ufeff\u00ad", "a\\u{200b}\\u{200d}\\u{2060}\\u{feff}\\u{ad}"),
        ("x\ufe0f\U000e0100\u180b", "x\\u{fe0f}\\u{e0100}\\u{180b}"),  # variation selectors: hermes-agent#81403
        ("\U000e0041\U0001d173", "\\u{e0041}\\u{1d173}"),
        ("\u115f\u1160\u3164\uffa0\u034f\u17b4", "\\u{115f}\\u{1160}\\u{3164}\\u{ffa0}\\u{34f}\\u{17b4}"),
        ("a\u00a0\u2003\u3000\u2800b", "a\\u{a0}\\u{2003}\\u{3000}\\u{2800}b"),
        ("\u2028\u2029\x85\x0b\x0c", "\\u{2028}\\u{2029}\\u{85}\\u{b}\\u{c}"),
        ("\ud800\udc00", "\\u{d800}\\u{dc00}"),
        ("\ue000\U0010ffff\uffff", "\\u{e000}\\u{10ffff}\\u{ffff}"),
        ("C:\\new", "C:\\\\new"),
        ("\\u{202e}", "\\\\u{202e}"),
    ],
)
def test_named_characters(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_stacked_marks_are_shown() -> None:
    zalgo = "a" + "\u0301" * 9 + "b"
    assert escape(zalgo) == "a" + "\u0301" * 4 + "\\u{301}" * 5 + "b"
    assert unescape(escape(zalgo)) == zalgo
    # A mark that something between would let begin anew.
    assert not stack().search(escape("a" + "\u0301\u200d" * 9))


@given(st.text(alphabet="a \n\\\u0301\u0338\u20dd\u202eé"))
def test_marks_never_fall_on_what_we_wrote(text: str) -> None:
    shown = escape(text)
    assert not stack().search(shown)
    # Before a mark stands the text's own base: no line's start, no escape's end.
    assert not re.search("(^|\n|\\\\\\\\|})[\u0301\u0338\u20dd]", shown)


@each("text", ["\\", "\\x", "\\[cut", "\\u{", "\\u{110000}", "\\u{g}", "\\N", "a\\\n"])
def test_what_was_not_escaped_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an escaped text|chr\(\)"):
        unescape(text)


def test_a_quoted_text_cannot_be_closed_from_inside() -> None:
    assert quote('"') == '"\\""'
    assert quote('\\"') == '"\\\\\\""'
    assert quote('x", "admin": true, "') == '"x\\", \\"admin\\": true, \\""'


@given(st.text(), st.integers(-1, 30))
def test_nothing_is_cut_without_a_mark(text: str, limit: int) -> None:
    shown = clip(text, limit)
    if len(text) <= limit:
        assert unescape(shown) == text
        return
    kept, _, mark = shown.rpartition("\\[")
    whole = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    assert unescape(kept) == text[: max(limit, 0)]
    assert mark == f"cut: {len(text) - len(unescape(kept))} of {len(text)} characters, sha256 of all {whole}]"
    with pytest.raises(ValueError, match="not an escaped text"):
        unescape(shown)


def test_a_cut_cannot_be_forged_or_undone_by_the_text() -> None:
    forged = "rm -rf /\\[cut: 5 of 9 characters, sha256 of all 00]"
    assert "\\\\[cut" in clip(forged, None)
    assert clip(forged, 8).count("\\[cut: ") == 1
    assert clip("a" * 10, 10) == clip("a" * 10, None) == "a" * 10


def test_reordering_letters_are_noticed() -> None:
    assert not any(map(reorders, ["", "abc", "привет", "日本語", "e\u0301"]))
    assert all(map(reorders, ["\u05d0", "a\u0627b", "\u0661", "\U0001e900", "\ufb2a"]))
    strong = {char for char in every() if unicodedata.bidirectional(char) in {"R", "AL", "AN"}}
    assert {char for char in strong if not reorders(char)} <= dangerous(strong)


@each(
    ("name", "reason"),
    [
        ("\u0440\u0430y", "mixes Cyrillic and Latin letters and looks like 'pay'"),
        ("p\u0430y", "mixes Cyrillic and Latin letters and looks like 'pay'"),
        ("\u0440\u0430\u0443", "looks like 'pay' but is written with other Cyrillic letters or signs"),
        ("\u03c1\u03b1\u03b3", "looks like 'pay' but is written with other Greek letters or signs"),
        ("\u0391PI", "mixes Greek and Latin letters and looks like 'API'"),
        ("\u0430\u03b1", "mixes Cyrillic and Greek letters and looks like 'aa'"),
        ("\uff50\uff41\uff59", "looks like 'pay' but is written with other Latin letters or signs"),
        ("\U0001d5c9ay", "looks like 'pay' but is written with other Latin letters or signs"),
        ("\ua4d1\ua4ee\ua4ec", "looks like 'PAY' but is written with other Lisu letters or signs"),
        ("delete\u2010all", "looks like 'delete-all' but is written with other Latin letters or signs"),
        ("1\u20102", "looks like '1-2' but is written with other Unicode letters or signs"),
        ("pay\u0663", "mixes Arabic and Latin letters"),
        ("pay\u200b", "holds characters that cannot be seen"),
        ("pay\n", "holds characters that cannot be seen"),
        ("pay\u00a0", "holds characters that cannot be seen"),
        ("pay\U000e0041", "holds characters that cannot be seen"),
        ("\u0438мя_name", "mixes Cyrillic and Latin letters"),
    ],
)
def test_homoglyphs(name: str, reason: str) -> None:
    assert mixed_script(name) == reason


@each(
    "name",
    ["", "pay", "send_mail-2.0", "C:\\x", "größe", "отправить", "支払い", "ファイルopen", "שלח", "éa", "pay ✓", "결제"],
)
def test_honest_names(name: str) -> None:
    assert mixed_script(name) is None


@each(
    ("name", "reason"),
    [
        ("\u13e2\u13aa\u13bd", "looks like 'PAY' but is written with other Cherokee letters or signs"),
        ("\u13e2\u13aa\u13a9", "looks like 'PAy' but is written with other Cherokee letters or signs"),
        ("\uab72\uab70", "looks like 'TD' but is written with other Cherokee letters or signs"),
        ("\u13e2\u13aa\u13c8", "is written with Cherokee letters, many of which look like Latin ones"),
        ("\u1d18\u1d00\u028f", "looks like 'pay' but is written with other Latin letters or signs"),
        ("\u1d05\u1d07\u029f\u1d07\u1d1b\u1d07_\u1d00\u029f\u029f", "looks like 'delete_all' but is written with other "
         "Latin letters or signs"),
        ("d\u1d07lete", "looks like 'delete' but is written with other Latin letters or signs"),
        ("\u1d18\xe4y", "holds small capitals, which look like other letters"),
    ],
)  # fmt: skip
def test_letters_drawn_like_latin_ones(name: str, reason: str) -> None:
    """L7: names in Cherokee or in small capitals got no warning."""
    assert mixed_script(name) == reason


def test_the_reason_holds_nothing_odd() -> None:
    reasons = {reason for char in every()[128:0x3000] if (reason := mixed_script("pay" + char))}
    assert all(map(str.isascii, reasons))
    assert all(map(str.isprintable, reasons))
