"""Say from which address a request comes, and by which it came: a header is believed only of a proxy that is named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.requests import HTTPConnection
from starlette.types import Scope

_MOST = 32
_FOR = re.compile(r'(?i)(?:^|;)\s*for\s*=\s*("[^"]*"|[^;\s]*)')
Address = IPv4Address | IPv6Address


def client_of(scope: Scope, proxies: tuple[str, ...] = ()) -> str:
    """Return the address of whoever asks: the nearest one that is no trusted proxy.

    `X-Forwarded-For` and `Forwarded` are read from the right. Where a request has both and they disagree, one of them
    was passed through from a client, and neither is believed.

    >>> client_of({"client": ("10.0.0.1", 5), "headers": [(b"x-forwarded-for", b"1.2.3.4, 192.0.2.7")]}, ("10.0.0.1",))
    '192.0.2.7'
    """
    peer = str((scope.get("client") or ("", 0))[0])
    if not proxies or not _trusted(_read(peer), proxies):
        return peer
    lists = [hops for hops in (_forwarded_for(scope), _forwarded(scope)) if hops]
    found = {_nearest(hops, peer, proxies) for hops in lists}
    return found.pop() if len(found) == 1 else peer


def origin_of(request: HTTPConnection, *, secure: bool) -> str:
    """Return by which origin this server was reached; the guard let no other host in.

    >>> origin_of(HTTPConnection({"type": "http", "scheme": "http", "headers": [(b"host", b"a.example")]}), secure=True)
    'https://a.example'
    """
    scheme = "https" if secure else request.scope.get("scheme", "http")
    return f"{scheme}://{request.headers['host']}"


def network_of(address: str) -> str:
    """Return what one client can choose its address from: a whole /64 where there is as much of them.

    >>> network_of("2001:db8::5"), network_of("192.0.2.7")
    ('2001:db8::/64', '192.0.2.7')
    """
    found = _read(address)
    if isinstance(found, IPv6Address):
        return str(ip_network((found.packed[:8] + bytes(8), 64)))
    return address if found is None else str(found)


def _forwarded_for(scope: Scope) -> list[str]:
    return [hop.strip() for hop in _values(scope, b"x-forwarded-for")]


def _forwarded(scope: Scope) -> list[str]:
    found = (_FOR.search(element) for element in _values(scope, b"forwarded"))
    return ["" if hop is None else hop[1].strip('"') for hop in found]


def _values(scope: Scope, header: bytes) -> list[str]:
    """Return the last members of a header that is a list, however many lines it comes in."""
    said = b",".join(value for name, value in scope["headers"] if name.lower() == header)
    return said.decode("latin-1").split(",")[-_MOST:] if said else []


def _nearest(hops: Iterable[str], peer: str, proxies: tuple[str, ...]) -> str:
    for hop in reversed(list(hops)):
        found = _read(hop)
        if found is None:  # whoever wrote that is no proxy of ours
            return peer
        if not _trusted(found, proxies):
            return str(found)
        peer = str(found)
    return peer


def _read(text: str) -> Address | None:
    """Read an address, without the port that some proxies add; an IPv4 address in the form of IPv6 is that address."""
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        found = ip_address(bare)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def _trusted(address: Address | None, proxies: tuple[str, ...]) -> bool:
    return address is not None and any(address in ip_network(proxy) for proxy in proxies)
