"""Say how a server is reached and what it lets in; everything here has a careful default."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from ..core.durations import milliseconds
from ..core.errors import UserError
from ..core.gate.words import UNDO_MS

_SHORTEST_MS = 600_000  # a proof that is good once is remembered as long as its login
_LONGEST_MS = 30 * 86_400_000
_REFRESH_MS = 3_600_000
_SHORTEST_REFRESH_MS = 60_000
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_URL = re.compile(r"$|/|https?://")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, kw_only=True)
class ClaimRule:
    """Maps a value of a claim, such as a group of the identity provider, to a group or a role of the directory.

    `claim` names the claim, whose value is a text or a list of texts; a dot leads into an object, as in
    `realm_access.roles`. Whoever signs in without the value loses what the rule gives.

    >>> ClaimRule(value="finance-approvers", role="finance").claim
    'groups'
    """

    value: str
    claim: str = "groups"
    group: str = ""
    role: str = ""

    def __post_init__(self) -> None:
        if not self.value or not self.claim or bool(self.group) == bool(self.role):
            raise UserError("a ClaimRule has a value=, and a group= or a role= that it gives")


@dataclass(frozen=True, kw_only=True)
class OidcSettings:
    """Says which provider of OpenID Connect people log in by, and which of its claims is a person's id here.

    `name` stands on the button. A claim `email` counts only where the provider says that it is verified. Somebody who
    is not in the directory is refused, unless `add_as` is the id of an administrator in whose name they are added,
    without any role.

    `rules` map claims to groups and roles at each sign-in. `refresh` is after how long a session is confirmed with the
    provider again, without a question to the user: an hour where there are rules, else not at all.

    >>> OidcSettings(issuer="https://login.example", client="keyturn", secret="s").claim
    'email'
    """

    issuer: str
    client: str
    secret: str = field(default="", repr=False)
    claim: str = "email"
    name: str = "single sign-on"
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    add_as: str = ""
    rules: tuple[ClaimRule, ...] = ()
    refresh: str | float | None = None

    @property
    def refresh_ms(self) -> int | None:
        """Return after how many milliseconds a session is confirmed with the provider again; None for never."""
        if self.refresh is None:
            return _REFRESH_MS if self.rules else None
        return milliseconds(self.refresh)

    def __post_init__(self) -> None:
        check_provider_url(self.issuer, "issuer")
        if self.refresh_ms is not None and not _SHORTEST_REFRESH_MS <= self.refresh_ms <= _LONGEST_MS:
            raise UserError("refresh= is from one minute to 30 days")
        if not self.client or not self.claim or "openid" not in self.scopes:
            raise UserError("client= and claim= are not empty, and scopes= has 'openid'")


def check_provider_url(url: str, what: str) -> str:
    """Return the address of a provider, which is https, or http on this very machine, or raise `UserError`.

    >>> check_provider_url("https://login.example", "issuer")
    'https://login.example'
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        plain = parts.port is None or parts.port > 0
    except ValueError:
        raise UserError(f"{what} is an address such as https://login.example, not {url!r}") from None
    known = parts.scheme == "https" or (parts.scheme == "http" and f"[{host}]" in _HERE)
    if not known or not host or not plain or "@" in parts.netloc or parts.fragment or not url.isprintable():
        raise UserError(f"{what} is an https address (or http on this machine), not {url!r}")
    return url


_HERE = ("[localhost]", "[127.0.0.1]", "[::1]")


@dataclass(frozen=True)
class HostUser:
    """Names the user whom the app that hosts this server has signed in.

    `groups` and `roles` are what the host gives them in the directory, in place of what it gave before; None says
    nothing of either.

    >>> HostUser("ada", roles=("finance",)).id
    'ada'
    """

    id: str
    groups: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Holds the settings of a server.

    `hosts` are the names, without ports, under which it may be reached: a request for any other is refused. `origins`
    are those of other sites whose pages may send it changes, such as `https://desk.example`. `secure` says that people
    reach it by https, so that cookies are kept to it. `session` is how long a login lasts, from ten minutes to a month.
    A request has at most `body_limit` bytes, and they come within `body_seconds`.

    `open_asks` is how many requests of external callers one account has open at the same time.

    `title` is what the inbox is called on the pages where people sign in; without one it is the host's name.

    `identity` uses the sign-in of the app that this server is mounted in: a callable that takes the request and returns
    an id, a `HostUser` or None, or the name of a header that the host's own code sets below `HostHeader`.
    `identity_url` is where that app signs people in.

    `passwords` says whether people may log in by one, and `oidc` by which provider besides. `proxies` are the networks
    of proxies that are trusted to say, in `X-Forwarded-For` or `Forwarded`, who asked them; of any other these headers
    are not looked at.

    `undo` is for how long the approver of a page can undo an approval before its call starts ("5s"; None for not at
    all). It applies to calls of high risk, and to those whose terms require a signature, only with `undo_high_risk`.

    >>> ServerSettings().hosts
    ('localhost', '127.0.0.1', '[::1]')
    """

    hosts: tuple[str, ...] = LOOPBACK
    origins: tuple[str, ...] = ()
    secure: bool = False
    session: str | float = "12h"
    body_limit: int = 1 << 20
    body_seconds: float = 30.0
    open_asks: int = 1_000
    development: bool = False
    passwords: bool = True
    oidc: OidcSettings | None = None
    proxies: tuple[str, ...] = ()
    undo: str | float | None = "5s"
    undo_high_risk: bool = False
    title: str = ""
    identity: Callable[[Any], Any] | str | None = None
    identity_url: str = ""

    def __post_init__(self) -> None:
        if not self.hosts or "*" in self.hosts:
            raise UserError("hosts= names the hosts by which the server is reached; a page of any other could use it")
        if not _SHORTEST_MS <= milliseconds(self.session) <= _LONGEST_MS:
            raise UserError("session= is how long a login lasts, from ten minutes to a month (30 days)")
        if self.open_asks < 1:
            raise UserError("open_asks= is how many requests an account has open: 1 or more")
        if self.undo is not None and not 0 < milliseconds(self.undo) <= UNDO_MS:
            raise UserError("undo= is for how long an approval can be undone, at most '60s'; None for not at all")
        named = isinstance(self.identity, str) and _HEADER.fullmatch(self.identity)
        if self.identity is not None and not callable(self.identity) and not named:
            raise UserError("identity= is a callable that takes the request, or the name of a header")
        if not (self.title + self.identity_url).isprintable() or not _URL.match(self.identity_url):
            raise UserError(
                "title= and identity_url= are one line, and identity_url= begins with /, https:// or http://"
            )
        for proxy in self.proxies:
            try:
                network = ip_network(proxy)
            except ValueError:
                raise UserError(f"proxies= are networks such as '10.0.0.0/8', or addresses; not {proxy!r}") from None
            if not network.prefixlen:
                raise UserError(f"proxies= would trust every address ({proxy}), so that any client can name another")
