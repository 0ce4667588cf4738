"""Strict JSON: what must be refused is refused, and what is accepted is exactly what was written."""

import contextlib
import doctest
import itertools
import json
import math
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core import strict
from keyturn.core.errors import BadJson
from keyturn.core.strict import ARGUMENTS, TextLimits, parse
from tests.table import each

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def refused(text: str | bytes, limits: TextLimits = ARGUMENTS) -> str:
    with pytest.raises(BadJson) as caught:
        parse(text, limits)
    # Logs show an error's cause and context as well: neither may carry the text.
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value.reason


def test_examples() -> None:
    assert doctest.testmod(strict).failed == 0


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_reads_what_others_write(value: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert repr(parse(text)) == repr(parse(text.encode())) == repr(value)


@given(st.text(alphabet='{}[]",:\\u0dD8ce+-. \n1é\ud800\ufeff') | st.text())
def test_any_text_is_read_as_the_standard_says_or_refused(text: str) -> None:
    try:
        value = parse(text)
    except BadJson:
        return
    assert repr(value) == repr(json.loads(text))


@given(st.binary() | VALUES.map(lambda value: json.dumps(value).encode("utf-16")))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse(data)
    except BadJson:
        return
    json.loads(data.decode())


@given(VALUES, st.data())
def test_a_changed_byte_gives_a_value_or_bad_json(value: object, data: st.DataObject) -> None:
    text = bytearray(json.dumps(value).encode())
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadJson):
        parse(bytes(text))


@pytest.mark.parametrize("size", [ARGUMENTS.bytes + 1, 50_000_000])
@pytest.mark.parametrize("kind", [str, bytes])
def test_too_large_is_refused_before_any_of_it_is_read(size: int, kind: type) -> None:
    text = "[" * size if kind is str else b"[" * size
    tracemalloc.start()
    try:
        assert refused(text) == "longer than 1048576 bytes"
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_size_is_counted_in_bytes() -> None:
    assert parse('"é"', TextLimits(bytes=4)) == "é"
    assert refused('"é"', TextLimits(bytes=3)) == refused('"é"'.encode(), TextLimits(bytes=3)) == "longer than 3 bytes"


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":', '["\\"[",'])
def test_nesting_of_100k(opening: str) -> None:
    assert refused(opening * 100_000) == "nested deeper than 64 levels"


def test_nesting_at_the_limit() -> None:
    assert parse("[" * 64 + "]" * 64) == json.loads("[" * 64 + "]" * 64)
    assert refused("[" * 65 + "]" * 65) == "nested deeper than 64 levels"
    assert parse("[" + "[[]]," * 50_000 + "[]]")
    # A limit set higher than the interpreter's stack still gives no RecursionError.
    assert "nested deeper" in refused("[" * 100_000 + "]" * 100_000, TextLimits(depth=1_000_000))


def test_brackets_in_strings_do_not_nest() -> None:
    for inside in ("[" * 1000, '\\"[{' * 1000, "\\\\" * 7 + "[" * 1000, "\\n[" * 1000, "\\u005b[" * 100):
        assert parse(f'["{inside}", {{"{inside}": 1}}]')
        assert refused(f'["{inside}", {"[" * 64}]') == "nested deeper than 64 levels"


@given(st.lists(st.sampled_from(["[", "]", "{", "}", '"', "\\", '\\"', "\\\\", "a", "é", ","]), max_size=60))
def test_depth_is_exact_up_to_the_first_error(pieces: list[str]) -> None:
    text = '["' + "".join(pieces)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        text = text[: error.pos]
    depth = deepest = 0
    inside = escaped = False
    for char in text:
        if inside:
            inside = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            inside = True
        else:
            depth += (char in "[{") - (char in "]}")
            deepest = max(deepest, depth)
    strict._check_depth(text, deepest)
    with pytest.raises(BadJson):
        strict._check_depth(text, deepest - 1)


def test_depth_across_chunks() -> None:
    filler = '["' + "x[" * 100_000 + '"]'
    assert parse(f"[{filler}, {filler}]")
    deep = "[" * 62
    assert refused(f"[{filler}, [{deep}[{filler}]") == "nested deeper than 64 levels"


@pytest.mark.trial
def test_a_million_keys() -> None:
    fields = [f'"{number}":0' for number in range(1_000_000)]
    assert refused("{" + ",".join(fields) + "}") == "longer than 1048576 bytes"
    value = parse("{" + ",".join(fields[:200_000]) + "}", TextLimits(bytes=64 << 20))
    assert isinstance(value, dict)
    assert len(value) == 200_000


def test_one_long_string() -> None:
    text = '"' + "x" * 10_000_000 + '"'
    assert refused(text) == "longer than 1048576 bytes"
    assert parse(text, TextLimits(bytes=64 << 20)) == "x" * 10_000_000


def test_a_text_of_quotes_or_escapes_takes_no_long_time() -> None:
    for hostile in ('"' * 500_000, "[" * 65 + '"' + '\\"' * 500_000, "[" * 65 + '"",' * 300_000, "\\" * 1_000_000):
        refused(hostile)


def test_digits_of_an_integer() -> None:
    for sign in ("", "-"):
        assert parse(sign + "9" * 4300) == int(sign + "9" * 4300)
        assert parse(f"[{sign}{'9' * 4300}]") == [int(sign + "9" * 4300)]
        assert refused(sign + "9" * 4301) == "an integer has more than 4300 digits"
    assert refused(f'{{"a": [1, {"1" * 5000}]}}') == "an integer has more than 4300 digits"
    assert refused("1" * 1_000_000) == "an integer has more than 4300 digits"
    assert refused("12345", TextLimits(digits=4)) == "an integer has more than 4 digits"
    assert parse('"' + "1" * 5000 + '"') == "1" * 5000
    assert parse("0." + "1" * 5000) == 1 / 9


def test_digits_that_the_interpreter_refuses() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert refused("1" * 641) == "an integer has more digits than this interpreter converts"
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1E+400", "1" * 400 + ".0"])
def test_overflow_to_infinity(number: str) -> None:
    assert refused(f'{{"a": [{number}]}}') == "a number is too large for a float"


def test_preserved_exactly() -> None:
    value = parse('{"z": -0.0, "a": 9007199254740993, "m": 123456789012345678901234567890, "f": 1.0, "i": 1}')
    assert isinstance(value, dict)
    assert list(value) == ["z", "a", "m", "f", "i"]
    assert value["a"] == 2**53 + 1
    assert value["m"] == 123456789012345678901234567890
    assert isinstance(value["z"], float)
    assert math.copysign(1, value["z"]) == -1
    assert (type(value["f"]), type(value["i"])) == (float, int)


@each("constant", ["NaN", "Infinity", "-Infinity"])
@each("frame", ["{}", "[{}]", '{{"a": {}}}', " {}"])
def test_constants(constant: str, frame: str) -> None:
    assert refused(frame.format(constant)) == "NaN and Infinity are not JSON"


@each(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": 1, "a": 1}',
        '{"x": {"a": 1, "b": 2, "a": 3}}',
        '[[{"a": [{"k": 1, "k": 2}]}]]',
        '{"a": 1, "\\u0061": 2}',
        '{"": 1, "": 2}',
        '{"é": 1, "\\u00e9": 2}',
    ],
)
def test_duplicate_keys(text: str) -> None:
    assert refused(text) == "a key occurs twice in one object"


def test_equal_keys_of_different_objects() -> None:
    assert parse('[{"a": {"a": 1}}, {"a": 2}]') == [{"a": {"a": 1}}, {"a": 2}]
    # Other code points are other keys, whatever they look like.
    assert parse('{"\\u00e9": 1, "e\\u0301": 2}') == {"é": 1, "e\u0301": 2}


@each("text", ['"\ud800"', '{"\udfff": 1}', '"\\ud800"', '{"\\uDC00": 1}', '["\\ud800\\ud800"]', '"\\ude00\\ud83d"'])
def test_lone_surrogates(text: str) -> None:
    assert "surrogate" in refused(text)


def test_escaped_surrogates_as_the_standard_joins_them() -> None:
    pieces = ["\\ud83d", "\\uDE00", "\\\\", "\\uDBff", "\\udC00", "u", "\\ue000", "\\n"]
    for chosen in itertools.product(pieces, repeat=4):
        text = f'"{"".join(chosen)}"'
        value = json.loads(text)
        if any("\ud800" <= char <= "\udfff" for char in value):
            assert "surrogate" in refused(text)
        else:
            assert parse(text) == value


@pytest.mark.parametrize("data", [b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'"\xf8"', '"é"'.encode("latin-1")])
def test_invalid_utf8(data: bytes) -> None:
    assert refused(data) == "not UTF-8 at byte 1"


def test_byte_order_mark() -> None:
    assert refused("\ufeff{}") == refused(b"\xef\xbb\xbf{}") == "it begins with a byte order mark"
    assert parse('"\ufeff"') == "\ufeff"


@each("text", ["{} {}", "1 2", '{"a":1}x', "nullnull", "[1]\0", "01", "1.", "{}\u00a0", "[]//c"])
def test_trailing_garbage(text: str) -> None:
    assert refused(text).startswith("something follows the value at character ")


@pytest.mark.parametrize("text", ["", " ", "\n\t\r ", b""])
def test_empty(text: str | bytes) -> None:
    assert refused(text) == "empty"


@each(
    "text", ["{", "[1,]", "{'a': 1}", '{"a" 1}', '"\n"', '"\\x41"', "+1", ".5", "-", "tru", "\v1", '"\\u12"', "{1: 2}"]
)
def test_invalid_syntax(text: str) -> None:
    assert refused(text).startswith("invalid syntax at character ")


def test_space_around_the_value() -> None:
    assert parse(" \t\r\n[1] \n") == [1]
    assert refused("  [x]") == "invalid syntax at character 3"


@given(st.text(min_size=4, alphabet=st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)))
def test_the_reason_never_quotes_the_text(secret: str) -> None:
    for text in (secret, f'{{"{secret}": 1, "{secret}": 2}}', f'["{secret}" {secret}]', f"1 {secret}", f'"\\{secret}"'):
        assert secret[:2] not in refused(text)
