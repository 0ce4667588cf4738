"""The canonical text of a JSON value, and the SHA-256 over such texts.

One value has one text, on every machine and in every version: keys in code point order, no spaces, no
escapes but those JSON demands, integers in full, floats as Python's `repr`. Stored digests are compared
with new ones for years, so the text may never change. What is not exactly JSON is refused, never coerced.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from math import isfinite
from typing import Any

import msgspec

from .errors import BadJson

_encode = msgspec.json.Encoder(order="sorted").encode


def canonical(value: object) -> str:
    """Return the one text of a JSON value; raise `BadJson` for NaN, other keys than text, other types than JSON's.

    >>> canonical({"b": 1.0, "a": [True, None, "é"]})
    '{"a":[true,null,"é"],"b":1.0}'
    """
    try:
        return _encode(value).decode() if _plain(value) else "".join(_pieces(value))
    except UnicodeEncodeError:
        reason = "a text holds a lone surrogate"
    except RecursionError:
        reason = "nested deeper than the stack has room for"
    except ValueError:
        reason = "an integer has more digits than this interpreter converts"
    # Raised here and not above: an error's context would carry the value into logs.
    raise BadJson(reason)


def digest(*parts: object) -> str:
    """Return the SHA-256 of the canonical list of `parts`, in hex; no two lists of parts share a text.

    >>> digest("ab", "c") == digest("a", "bc")
    False
    """
    return sha256(canonical(list(parts)).encode()).hexdigest()


def keyed_digest(key: str, *parts: object) -> str:
    """Return `digest(*parts)`, or with a key the HMAC-SHA256 of the same text: without the key no part can be guessed.

    >>> keyed_digest("", "ab") == digest("ab"), keyed_digest("k", "ab") == digest("ab")
    (True, False)
    """
    if not key:
        return digest(*parts)
    return hmac.digest(key.encode(), canonical(list(parts)).encode(), "sha256").hex()


def same(a: object, b: object) -> bool:
    """Return whether two JSON values have one canonical text: 1, 1.0 and True are three values.

    >>> same({"a": 1, "b": 2}, {"b": 2, "a": 1}), same(1, True), same(1, 1.0)
    (True, False, False)
    """
    return canonical(a) == canonical(b)


_kind: Callable[[object], object] = type
_LEAVES: frozenset[object] = frozenset({str, int, bool, type(None)})


def _plain(value: Any) -> bool:
    """Refuse what is not JSON by its exact type; return whether the encoder's own text is canonical.

    It writes 1e16 where `repr` writes 1e+16, and NaN as null: a float that is not a plain decimal goes
    the long way round. A subclass is refused, since it could print as one value and compare as another.
    """
    plain = True
    kind = _kind(value)
    if kind is dict:
        for key, member in value.items():
            if type(key) is not str:
                raise BadJson("a key is not a text")
            if type(member) not in _LEAVES and not _plain(member):
                plain = False
    elif kind is list:
        for member in value:
            if type(member) not in _LEAVES and not _plain(member):
                plain = False
    elif kind is float:
        plain = 1e-4 <= abs(value) < 1e16 or value == 0
    elif kind not in _LEAVES:
        raise BadJson("a value is of a type that JSON does not have")
    return plain


def _pieces(value: Any) -> Iterator[str]:
    """Yield the encoder's text slowly, with our own floats, for a value that `_plain` has checked."""
    kind = _kind(value)
    if kind is dict:
        mark = "{"
        for key in sorted(value):
            yield mark + _encode(key).decode() + ":"
            yield from _pieces(value[key])
            mark = ","
        yield "}" if value else "{}"
    elif kind is list:
        mark = "["
        for member in value:
            yield mark
            yield from _pieces(member)
            mark = ","
        yield "]" if value else "[]"
    elif kind is float and not isfinite(value):
        raise BadJson("NaN and Infinity are not JSON")
    else:
        yield repr(value) if kind is float else _encode(value).decode()


def bound_words(
    run: str, call: str, agent: str, tool: str, arguments: str, basis: Mapping[str, str] | None, asks: int
) -> list[str]:
    """Return what an approval of any call is bound to, of a run's own record or of what a person was shown.

    `tool` is the digest of the tool and `arguments` are canonical; `asks` is how often the call was asked before.
    """
    words = [run, call, agent, tool, arguments]
    if basis:
        words.append(canonical(basis))
    if asks:  # a word on what was asked before is no word on this, though the bytes are the same
        words.append(str(asks))
    return words
