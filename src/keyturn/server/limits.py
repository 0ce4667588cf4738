"""Rate limits: count how often something is tried, by person and by address, in a memory of a fixed size.

Who is counted is kept as one of so many buckets, chosen with a key of this process: no list of names grows, and nobody
can aim at the bucket of somebody else. What is counted of people has buckets apart from what is counted of addresses,
of which a stranger can have very many.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time

from limits import RateLimitItem, RateLimitItemPerHour, RateLimitItemPerMinute, parse
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

_BUCKETS = 1 << 16

#: Changes by one address that is not logged in; by one token or login; by one person, by their logins and by their
#: tokens; and answers "there is no such thing" to one token or login.
CHANGES = parse("600 per minute")
BY_LOGIN = RateLimitItemPerMinute(600, namespace="person")
BY_PERSON = RateLimitItemPerMinute(900, namespace="person")
MISSES = RateLimitItemPerMinute(60, namespace="person")
#: What one person notes beside requests, such as looks, claims and what they put off: each is a line of a run's log.
MARKS = RateLimitItemPerHour(2_000, namespace="person")

#: Receivers of webhooks that one provisioner proposes, and that are proposed at one host: each is posted a challenge.
RECEIVERS = RateLimitItemPerHour(300, namespace="person")


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
