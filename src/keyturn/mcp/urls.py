"""What the two kinds of server over HTTP share: their address and how it is named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from ..core.errors import UserError


def checked(params: Any, known: Collection[str]) -> dict[str, Any]:
    """A user's `params`, or an error that says what is wrong with them."""
    given = dict(cast("Mapping[str, Any]", params)) if isinstance(params, Mapping) else {}
    url = given.get("url")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise UserError('params of an MCP server over HTTP must name its address: {"url": "https://..."}')
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UserError(f"params of this MCP server have no {unknown[0]!r}, only {', '.join(sorted(known))}")
    return given


def shown(url: str) -> str:
    """An address as it may be shown and recorded: without a user, a password, a query.

    >>> shown("https://ann:pw@example.com/mcp?key=1")
    'https://example.com/mcp'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
