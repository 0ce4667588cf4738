"""Limit how often something is tried, by person and by address, in a memory of a fixed size.

Who is counted is kept as one of so many buckets, chosen with a key of this process: no list of names grows, and nobody
can aim at the bucket of somebody else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import time
from typing import Any

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .address import client_of, network_of
from .settings import ServerSettings

_BUCKETS = 1 << 16
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

#: Changes by one address, and answers "there is no such thing" to one person.
CHANGES = parse("600 per minute")
MISSES = parse("60 per minute")


class TooMany(Exception):
    """Raised where something was tried too often; `after` is how many seconds to wait.

    >>> TooMany(5).after
    5
    """

    def __init__(self, after: int) -> None:
        self.after = after
        super().__init__(f"too many attempts; try again in {after} seconds")


class Limits:
    """Counts attempts by rule and by who makes them.

    >>> limits = Limits()
    >>> limits.spend(parse("1 per hour"), "ada")
    >>> limits.spent(parse("1 per hour"), "ada"), limits.spent(parse("1 per hour"), "bob")
    (True, False)
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._counts = SlidingWindowCounterRateLimiter(MemoryStorage())

    def spend(self, rule: RateLimitItem, *who: str) -> None:
        """Count an attempt, or raise `TooMany` for one too many, which is not counted."""
        if not self._counts.hit(rule, self._bucket(rule, who)):
            raise TooMany(self.wait(rule, *who))

    def stop(self, rule: RateLimitItem, *who: str) -> None:
        """Raise `TooMany` where the next attempt would be one too many, and count nothing."""
        if self.spent(rule, *who):
            raise TooMany(self.wait(rule, *who))

    def spent(self, rule: RateLimitItem, *who: str) -> bool:
        """Return whether the next attempt would be one too many."""
        return not self._counts.test(rule, self._bucket(rule, who))

    def wait(self, rule: RateLimitItem, *who: str) -> int:
        """Return after how many seconds the next attempt may be made."""
        ends = self._counts.get_window_stats(rule, self._bucket(rule, who)).reset_time
        return max(1, min(int(ends - time.time()) + 1, rule.get_expiry()))

    def forgive(self, rule: RateLimitItem, *who: str) -> None:
        """Forget the attempts of somebody who turned out to be who they said."""
        self._counts.clear(rule, self._bucket(rule, who))

    def _bucket(self, rule: RateLimitItem, who: tuple[str, ...]) -> str:
        text = json.dumps([repr(rule), *who]).encode()
        return str(int.from_bytes(hashlib.blake2b(text, key=self._key, digest_size=8).digest()) % _BUCKETS)


class Limiter:
    """Wraps an ASGI app, and refuses an address that changes too much.

    It counts how often somebody who logged in is told that there is no such thing: whoever reads who they are refuses
    them. Nobody else is told of anything but logins.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, limits: Limits) -> None:
        self._app = app
        self._settings = settings
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of an address that has not asked too much."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        who = network_of(client_of(scope, self._settings.proxies))
        asker = scope["keyturn_asker"] = {"person": ""}
        try:
            if scope["method"] not in _SAFE:
                self._limits.spend(CHANGES, who)
        except TooMany as many:
            return await _refuse(send, many)

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 404 and asker["person"]:
                with contextlib.suppress(TooMany):  # the next one is refused
                    self._limits.spend(MISSES, asker["person"])
            await send(message)

        await self._app(scope, receive, counted)
        return None


async def _refuse(send: Send, many: TooMany) -> None:
    body = json.dumps({"error": {"kind": "too_many", "message": str(many)}}).encode()
    headers: list[Any] = [(b"content-type", b"application/json"), (b"retry-after", str(many.after).encode())]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 429, "headers": headers})
    await send({"type": "http.response.body", "body": body})
