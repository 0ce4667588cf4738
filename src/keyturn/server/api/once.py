"""Answer a repeated request as the first time: the same idempotency key with the same body does nothing twice.

A server remembers its answers for a day. What holds between servers, and after a restart, is the record itself: the
same decision of the same person on the same request is one, a start, a fork, a message, a resume, a withdrawal and a
mark are named by their keys in the log of their run, and changes of people in that of the directory. A grant is
revoked, and a run cancelled, once by itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from ...core import events as ev
from ...directory.sign_ins import ShownOnce
from ...engine.run.log_cache import log_in
from ...journal.base import Journal
from .refusing import Refusal

HEADER = "idempotency-key"
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_SECONDS = 24 * 3600.0
_MOST = 20_000
_MOST_EACH = 1_000  # of one person, so that nobody pushes out what is remembered for others
_LARGEST = 16_384
_MOST_BYTES = 32 << 20  # of all answers; of one person a share
_MOST_BYTES_EACH = 2 << 20


class _Kept(NamedTuple):
    """Holds an answer, what was asked for it, and until when it is remembered."""

    until: float
    body: bytes
    status: int
    answer: bytes | None

    @property
    def size(self) -> int:
        return len(self.answer or b"")


@dataclass
class _Work:
    """Lets one of those who ask the same do it while the others wait."""

    lock: asyncio.Lock
    waiting: int = 0


class Answers:
    """Remembers the answers to requests that named a key, each for whoever asked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept = OrderedDict[tuple[str, str], _Kept]()
        self._keys = dict[str, OrderedDict[tuple[str, str], None]]()  # by person
        self._sizes = Counter[str]()
        self._at_work = dict[tuple[str, str], _Work]()

    async def once(
        self, whose: str, key: str, asked: bytes, doing: Callable[[], Awaitable[Response]], *, secret: bool = False
    ) -> Response:
        """Do it, or answer as the first time; whoever asks meanwhile waits for that answer.

        An answer with a `secret` is not kept: it is refused the second time, and nothing is done again.
        """
        name = (whose, key)
        work = self._at_work.setdefault(name, _Work(asyncio.Lock()))
        work.waiting += 1
        try:
            async with work.lock:
                kept = self._found(name)
                if kept is None:
                    made = await doing()
                    self._keep(name, asked, made, secret=secret)
                    return made
        finally:
            work.waiting -= 1
            if not work.waiting:
                del self._at_work[name]
        if kept.body != asked:
            raise Refusal(422, "other_body", "this idempotency key was used for another request; choose a new one")
        if kept.answer is None:
            raise ShownOnce
        return Response(kept.answer, kept.status, media_type="application/json")

    def _found(self, name: tuple[str, str]) -> _Kept | None:
        kept = self._kept.get(name)
        return kept if kept is not None and self._clock() < kept.until else None

    def _keep(self, name: tuple[str, str], asked: bytes, made: Response, *, secret: bool) -> None:
        body = getattr(made, "body", None)  # a file, which is read and changes nothing, has none
        if made.status_code >= 300 or not isinstance(body, bytes) or len(body) > _LARGEST:
            return
        self._forget(name)
        kept = _Kept(self._clock() + _SECONDS, asked, made.status_code, None if secret else body)
        self._kept[name] = kept
        person = _person_of(name)  # who has several tokens has one share
        own = self._keys.setdefault(person, OrderedDict())
        own[name] = None
        self._sizes[person] += kept.size
        while len(own) > _MOST_EACH or self._sizes[person] > _MOST_BYTES_EACH:
            self._forget(next(iter(own)))
        while len(self._kept) > _MOST or self._sizes.total() > _MOST_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, name: tuple[str, str]) -> None:
        kept = self._kept.pop(name, None)
        if kept is None:
            return
        person = _person_of(name)
        self._sizes[person] -= kept.size
        own = self._keys[person]
        del own[name]
        if not own:
            del self._keys[person], self._sizes[person]


def _person_of(name: tuple[str, str]) -> str:
    return name[0].partition(" ")[0]


def key_of(headers: Any) -> str | None:
    """Return the key that a request names, or refuse one that is none."""
    given: list[str] = headers.getlist(HEADER)
    if not given:
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        raise Refusal(422, "bad_request", "an idempotency key is 1 to 200 visible ASCII characters")
    return given[0]


async def said_already(journal: Journal, run: str, said: Callable[[ev.AnyEvent], bool]) -> bool:
    """Return whether a run's log holds a word that ends something, so that it is not said again."""
    log = await log_in(journal, run)
    return any(said(event) for step in log.steps for event in step.events)


def asked_of(method: str, path: str, body: object) -> bytes:
    """Return a digest of what a request asks."""
    told = msgspec.json.encode(body, order="deterministic")
    return hashlib.sha256(f"{method} {path}\n".encode() + told).digest()
