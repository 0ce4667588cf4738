"""Check the URL of a server before a token is sent there, and the path of each request."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from ..core.errors import UserError

_SEGMENT = re.compile(r"[0-9A-Za-z_@.-]+")


def server_url(url: str, *, plain_http: bool = False) -> str:
    """Return the URL of a server, or raise `UserError`: a token goes over plain HTTP to this machine alone.

    `plain_http` allows other hosts, where the network itself is encrypted.

    >>> server_url("https://keyturn.example/"), server_url("http://localhost:8321")
    ('https://keyturn.example', 'http://localhost:8321')
    >>> server_url("http://keyturn.example")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: the token would be sent unencrypted to 'keyturn.example': use an https:// URL, or \
allow plain HTTP with plain_http=True (--plain-http)
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise UserError(f"the URL of a server is like https://keyturn.example, not {url!r}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UserError(f"the URL of a server is like https://keyturn.example, not {url!r}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError("the URL of a server has no user, password, query or fragment; the token identifies you")
    if parts.scheme == "http" and not plain_http and not _this_machine(host):
        raise UserError(
            f"the token would be sent unencrypted to {host!r}: use an https:// URL, or allow plain HTTP with "
            "plain_http=True (--plain-http)"
        )
    return url.rstrip("/")


def request_path(path: str) -> str:
    """Return the path of a request, or raise `UserError`: an id in it leads to no other route.

    >>> request_path("/requests/5e1f/approve")
    '/requests/5e1f/approve'
    >>> request_path("/requests/../people/remove")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: this id leads elsewhere: '/requests/../people/remove'
    """
    for segment in path.split("/")[1:]:
        if segment in (".", "..") or not _SEGMENT.fullmatch(segment):
            raise UserError(f"this id leads elsewhere: {path!r}")
    return path


def _this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
