"""Parse strict JSON: the one way in for a text that a model, a client or a file wrote.

What two parsers could read differently is refused, never repaired: duplicate keys, NaN and Infinity,
numbers that overflow, lone surrogates, a byte order mark, anything after the value. Limits hold before
the work they bound is done. The only error is `BadJson`, and its reason never quotes the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from math import isfinite
from typing import Never, TypeAlias

import msgspec

from .errors import BadJson

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


class TextLimits(msgspec.Struct, frozen=True):
    """Sets how large a text may be: in UTF-8 bytes, in nesting, in the digits of one integer.

    `sys.set_int_max_str_digits` still holds: Python itself converts no longer integer.

    >>> TextLimits(bytes=64 << 20).depth
    64
    """

    bytes: int = 1 << 20
    depth: int = 64
    digits: int = 4300


ARGUMENTS = TextLimits()


def parse(text: str | bytes, limits: TextLimits = ARGUMENTS) -> JsonValue:
    """Parse a strict JSON text, or raise `BadJson`.

    >>> parse('{"x": 1}')
    {'x': 1}
    >>> parse('{"x": 1, "x": 2}')
    Traceback (most recent call last):
    ...
    keyturn.core.errors.BadJson: not strict JSON: a key occurs twice in one object
    """
    if len(text) > limits.bytes:
        raise BadJson(f"longer than {limits.bytes} bytes")
    if not isinstance(text, str):
        text = _decoded(text)
    if not text.isascii():
        _check_unicode(text, limits.bytes)
    # A text with few brackets cannot be deep, wherever they stand, and a short one holds no long integer.
    if text.count("[") + text.count("{") > limits.depth:
        _check_depth(text, limits.depth)
    if "\\u" in text:
        _check_escapes(text)
    decoder = _DECODER if len(text) <= limits.digits else _counting_decoder(limits.digits)
    start = 0 if text[:1] in _STARTS else len(text) - len(text.lstrip(_SPACE))
    return _decode(decoder, text, start)


def _decode(decoder: json.JSONDecoder, text: str, start: int) -> JsonValue:
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        reason = f"invalid syntax at character {error.pos}" if start < len(text) else "empty"
    except ValueError:
        reason = "an integer has more digits than this interpreter converts"
    except RecursionError:
        reason = "nested deeper than the stack has room for"
    else:
        if end == len(text) or not text[end:].strip(_SPACE):
            return value
        reason = f"something follows the value at character {end}"
    # Raised here and not above: an error's context would carry the text into logs.
    raise BadJson(reason)


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    made = dict(pairs)
    # Which of two equal keys counts is what parsers differ in: one would be shown and the other run.
    if len(made) != len(pairs):
        raise BadJson("a key occurs twice in one object")
    return made


def _float(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise BadJson("a number is too large for a float")
    return value


def _constant(_name: str) -> Never:
    raise BadJson("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)


@lru_cache(maxsize=8)
def _counting_decoder(limit: int) -> json.JSONDecoder:
    """Make a decoder that counts an integer's digits before the conversion, whose time is quadratic in them."""

    def integer(digits: str) -> int:
        if len(digits) > limit and len(digits.lstrip("-")) > limit:
            raise BadJson(f"an integer has more than {limit} digits")
        return int(digits)

    return json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant, parse_int=integer)


_SPACE = " \t\n\r"
_STARTS = frozenset('{["-0123456789tfnNI')


def _decoded(data: bytes) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        at = error.start
    raise BadJson(f"not UTF-8 at byte {at}")


def _check_unicode(text: str, most: int) -> None:
    if text[0] == "\ufeff":
        raise BadJson("it begins with a byte order mark")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        at = error.start
    else:
        if size <= most:
            return
        raise BadJson(f"longer than {most} bytes")
    raise BadJson(f"a lone surrogate at character {at}")


# The escape of a high surrogate without a low one after it, and of a low one without a high one before it.
_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = r"\\u[dD][c-fC-F]"
_LONE = re.compile(rf"{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}")


def _check_escapes(text: str) -> None:
    # An escaped backslash before a "u" begins no escape; two spaces keep the places of all others.
    found = _LONE.search(text.replace("\\\\", "  ") if "\\\\" in text else text)
    if found is not None:
        raise BadJson(f"the escape of a lone surrogate at character {found.start()}")


# Each bracket as a signed step of one level; every other byte is dropped.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[{]}")
_CHUNK = 1 << 16


def _check_depth(text: str, most: int) -> None:
    """Refuse before parsing what would nest too deep; up to the first syntax error this count is exact."""
    level = 0
    for steps in _bracket_steps(text):
        levels = list(accumulate(steps, initial=level))
        if max(levels) > most:
            raise BadJson(f"nested deeper than {most} levels")
        level = levels[-1]


def _bracket_steps(text: str) -> Iterator[memoryview]:
    """Yield the brackets outside strings, a chunk at a time, so that memory stays bounded."""
    bare = text.replace("\\\\", "").replace('\\"', "")
    inside = False
    for start in range(0, len(bare), _CHUNK):
        pieces = bare[start : start + _CHUNK].split('"')
        outside = "".join(pieces[inside::2]).encode("ascii", "replace")
        yield memoryview(outside.translate(_STEPS, _NO_BRACKETS)).cast("b")
        inside ^= len(pieces) % 2 == 0
