"""Judge where a message may be sent: a URL by its form, and every address that its host has.

A URL is somebody's input. What it names may be this machine, its neighbours or a cloud's metadata service, under a
name that has another address a second later. So the addresses are checked when a message is sent, and the connection
is made to the very address that was checked.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import urlsplit

from ..core.errors import UserError
from .base import ChannelRefused

_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?\.?")
_LONGEST = 2_048
# What Python calls global, or has called so, and is not the public internet.
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
            *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            *("168.63.129.16/32", "::/8", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20"),
            *("5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
        ),
    )
)
# Addresses that hold another one, of IPv4: the prefix, and by how many bits it is shifted.
_HOLDING = (
    (ipaddress.ip_network("::ffff:0:0/96"), 0),
    (ipaddress.ip_network("::ffff:0:0:0/96"), 0),
    (ipaddress.ip_network("64:ff9b::/96"), 0),
    (ipaddress.ip_network("2002::/16"), 80),
)


class Target(NamedTuple):
    """Names where a request goes: over TLS or not, host, port, and the path with its query."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Return the host and port as a `Host` header says them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def check_url(url: str, *, loopback: bool) -> None:
    """Refuse a URL that a program names for a channel, as `target_of` would once a message is sent there."""
    try:
        target_of(url, loopback=loopback)
    except ChannelRefused as error:
        raise UserError(f"url=: {error}") from None


def target_of(url: str, *, loopback: bool = False) -> Target:
    """Read a URL, or raise `ChannelRefused`; only with `loopback` may it be plain http, and only to this machine.

    >>> target_of("https://hooks.example/kt?x=1")
    Target(secure=True, host='hooks.example', port=443, path='/kt?x=1')
    """
    if len(url) > _LONGEST or not url.isascii() or any(char <= " " or char in '\\"<>^`{|}\x7f' for char in url):
        raise ChannelRefused("the address is not a URL in plain ASCII; encode what is special in it")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise ChannelRefused("the address is not a URL") from None
    secure = parts.scheme == "https"
    if not secure and not (loopback and parts.scheme == "http"):
        raise ChannelRefused("the address must begin with https://")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ChannelRefused("the address holds a user, a password or a fragment; leave them out")
    if port == 0 or not (_is_address(host) or _HOST.fullmatch(host)):
        raise ChannelRefused("the address names no host")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(secure, host, port or (443 if secure else 80), path)


def check_addresses(target: Target, found: list[str], *, loopback: bool = False, allow: Sequence[str] = ()) -> None:
    """Raise `ChannelRefused` unless every address of a host may be sent to; `allow` are private networks that may.

    >>> check_addresses(target_of("https://x.example/"), ["192.0.2.7"])
    Traceback (most recent call last):
    ...
    keyturn.channels.base.ChannelRefused: the host of this address is not on the public internet; nothing was sent
    """
    for text in found:
        local = _loopback(text)
        if target.secure and not local and (is_public(text) or _is_within(text, allow)):
            continue
        if not (loopback and local):
            raise ChannelRefused("the host of this address is not on the public internet; nothing was sent")


def is_public(text: str) -> bool:
    """Return whether an address is one of the public internet, by whatever form it is written in.

    >>> [is_public(text) for text in ("8.8.8.8", "10.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "fe80::1%eth0")]
    [True, False, False, False, False]
    """
    if "%" in text:
        return False
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return all(_is_public(each) for each in (_held(address) or [address]))


def _is_within(text: str, networks: Sequence[str]) -> bool:
    if not _is_address(text):
        return False
    address = ipaddress.ip_address(text)
    return any(address in ipaddress.ip_network(network) for network in networks)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return not any(address in network for network in _NOT_PUBLIC if network.version == address.version)


def _held(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """Return the address of IPv4 that one of IPv6 stands for."""
    found = list[IPv4Address]()
    for network, shift in _HOLDING:
        if address.version == network.version and address in network:
            found.append(IPv4Address((int(address) >> shift) & 0xFFFFFFFF))
    return found


def _loopback(text: str) -> bool:
    return _is_address(text) and ipaddress.ip_address(text).is_loopback


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
