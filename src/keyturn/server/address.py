"""Say from which address a request comes; a header is believed only of a proxy that the settings name."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

from starlette.types import Scope

_MOST = 32


def client_of(scope: Scope, proxies: tuple[str, ...] = ()) -> str:
    """Return the address of whoever asks: the nearest one that is no trusted proxy.

    >>> client_of({"client": ("10.0.0.1", 5), "headers": [(b"x-forwarded-for", b"1.2.3.4, 192.0.2.7")]}, ("10.0.0.1",))
    '192.0.2.7'
    """
    peer = (scope.get("client") or ("", 0))[0]
    if not proxies or not _trusted(peer, proxies):
        return peer
    said = b",".join(value for name, value in scope["headers"] if name.lower() == b"x-forwarded-for")
    hops = [hop.strip() for hop in said.decode("latin-1").split(",")][-_MOST:]
    for hop in reversed(hops):
        try:
            found = str(ip_address(hop))
        except ValueError:  # whoever wrote that is no proxy of ours
            return peer
        if not _trusted(found, proxies):
            return found
        peer = found
    return peer


def network_of(address: str) -> str:
    """Return what one client can choose its address from: a whole /64 where there is as much of them.

    >>> network_of("2001:db8::5"), network_of("192.0.2.7")
    ('2001:db8::/64', '192.0.2.7')
    """
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ip_network((found.packed[:8] + bytes(8), 64)))
    return str(found)


def _trusted(address: str, proxies: tuple[str, ...]) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return any(found in ip_network(proxy) for proxy in proxies)
