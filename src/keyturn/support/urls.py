"""Show and tell apart addresses that may hold a password or a key, and say which ones another device can open."""

from __future__ import annotations

import hashlib
import ipaddress
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


def opens_elsewhere(url: str) -> bool:
    """Return whether another device can open a URL: its host is not this machine's name for itself.

    >>> opens_elsewhere("http://localhost:8321/"), opens_elsewhere("https://inbox.example/")
    (False, True)
    """
    host = (urlsplit(url).hostname or "localhost").rstrip(".")
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host != "localhost" and not host.endswith(".localhost")
    return not (found.is_loopback or found.is_unspecified)


def _bytes(url: str) -> bytes:
    return url.encode("utf-8", "surrogatepass")
