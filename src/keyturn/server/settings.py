"""Say how a server is reached and what it lets in; everything here has a careful default."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import UserError
from ..core.policy import milliseconds

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Holds the settings of a server.

    `hosts` are the names, without ports, under which it may be reached: a request for any other is refused. `origins`
    are those of other sites whose pages may send it changes, such as `https://desk.example`. `secure` says that people
    reach it by https, so that cookies are kept to it. `session` is how long a login lasts. A request has at most
    `body_limit` bytes, and they come within `body_seconds`.

    >>> ServerSettings().hosts
    ('localhost', '127.0.0.1', '[::1]')
    """

    hosts: tuple[str, ...] = LOOPBACK
    origins: tuple[str, ...] = ()
    secure: bool = False
    session: str | float = "12h"
    body_limit: int = 1 << 20
    body_seconds: float = 30.0
    development: bool = False

    def __post_init__(self) -> None:
        if not self.hosts or "*" in self.hosts:
            raise UserError("hosts= names the hosts by which the server is reached; a page of any other could use it")
        milliseconds(self.session)
