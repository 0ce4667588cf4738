"""Take the credentials of a request out of words that quote it: of a provider, of a proxy, of an HTTP library.

Which they are is read from the request that an error carries, whatever package raised it. A key that was read from a
file with the end of its line is quoted by the library that refuses the header, one that a proxy echoes by its page.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ..core.preview import REDACTED
from .user_code import run_callback

_NAMES = re.compile(r"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE)
_SHORTEST = 8  # what is shorter is a word that a local server takes for a key
_DEEPEST = 20


def credentials_of(error: BaseException) -> set[str]:
    """Return what was secret in the requests that an error, or what caused it, is about; nothing where it resists."""
    try:
        return run_callback(_credentials_of, error)
    except Exception:  # an error of anybody's may fail to be read
        return set()


def _credentials_of(error: BaseException) -> set[str]:
    found = set[str]()
    for request in _requests_of(error):
        headers: Any = getattr(request, "headers", None)
        for name, value in list(headers.items()) if hasattr(headers, "items") else []:
            if _NAMES.search(str(name)):
                found |= {str(value), str(value).partition(" ")[2]}
        found |= set(_in_url(str(getattr(request, "url", ""))))
    return {each for text in found if len(each := text.strip()) >= _SHORTEST}


def _requests_of(error: BaseException) -> Iterator[Any]:
    """Yield the requests that an error carries, by the names in use, or that its response or its cause carries."""
    each: BaseException | None = error
    for _ in range(_DEEPEST):
        if each is None:
            return
        carriers = (each, _carried(each, "response"))
        yield from (_carried(about, name) for about in carriers for name in ("request", "request_info"))
        each = each.__cause__ or each.__context__


def _carried(about: object, name: str) -> Any:
    try:
        return run_callback(getattr, about, name, None)
    except Exception:  # an error that was given no request raises another one
        return None


def _in_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        secret = parts.password
    except ValueError:
        return
    if secret is not None:
        yield from (secret, unquote(secret))
    yield from (value for name, value in parse_qsl(parts.query) if _NAMES.search(name))


def without(text: str, values: Iterable[str]) -> str:
    """Return a text with a mark for each of these values, in each way that it may be written.

    >>> without("b'Bearer sk-12345678\\\\n' is no header", ["sk-12345678"])
    "b'Bearer [redacted]\\\\n' is no header"
    """
    ways = set[str]()
    for plain in values:
        once = {plain, repr(plain), *_quoted(plain)}
        ways |= once | {twice for way in once for twice in _quoted(way)}  # a text of arguments is quoted in its turn
        ways |= {line.strip() for line in plain.splitlines()}  # a group of exceptions is indented line by line
    for way in sorted(ways - {""}, key=len, reverse=True):
        text = text.replace(way, REDACTED)
    return text


def traceback_without(error: BaseException) -> str:
    """Return the traceback of an error as Python prints it, without the credentials of a request that it quotes."""
    return without("".join(traceback.format_exception(error)).rstrip("\n"), credentials_of(error))


def _quoted(text: str) -> Iterator[str]:
    """Yield how a text stands between quotation marks in Python, as text and as bytes, and in JSON."""
    for written in (repr(text), json.dumps(text), json.dumps(text, ensure_ascii=False)):
        yield written[1:-1]
    yield repr(text.encode("utf-8", "surrogatepass"))[2:-1]
