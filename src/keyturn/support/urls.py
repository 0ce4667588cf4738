"""Show and tell apart addresses that may hold a password or a key: in the user, the query or the fragment."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

_ROUNDS = 200_000


def public_url(url: str) -> str:
    """Return a URL as it may be shown and recorded: without user, password and query.

    >>> public_url("https://ann:pw@example.com/mcp?key=1")
    'https://example.com/mcp'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@lru_cache(maxsize=256)
def private_digest(url: str) -> str:
    """Return a digest of a URL of which a part is not shown, "" where all of it is.

    It stands in logs beside the public URL, so that guessing a password by it is made slow.

    >>> private_digest("https://example.com/mcp")
    ''
    >>> private_digest("https://example.com/mcp?tenant=a") == private_digest("https://example.com/mcp?tenant=b")
    False
    """
    public = public_url(url)
    if public == url:
        return ""
    return hashlib.pbkdf2_hmac("sha256", _bytes(url), _bytes(public), _ROUNDS).hex()


def _bytes(url: str) -> bytes:
    return url.encode("utf-8", "surrogatepass")
