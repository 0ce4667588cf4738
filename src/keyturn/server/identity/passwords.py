"""Make and check passwords: argon2id, in threads, a few at a time, the same work for whoever there is not."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from ...core.errors import UserError
from ..limits import TooMany

SHORTEST, LONGEST = 12, 500
_AT_ONCE = 2  # each takes 64 MiB for as long as it lasts
_WAITING = 40
_KEPT = 20  # places more, for browsers in which the person has logged in before
_REFUSED = (
    "password",
    "passwort",
    "passw0rd",
    "letmein",
    "welcome",
    "administrator",
    "admin",
    "changeme",
    "secret",
    "iloveyou",
    "monkey",
    "dragon",
    "sunshine",
    "princess",
    "football",
    "baseball",
    "superman",
    "trustno1",
    "keyturn",
    "qwertyuiop",
    "qwerty",
    "qwertz",
    "azerty",
    "asdfghjkl",
    "zxcvbnm",
    "abcdefghijklmnopqrstuvwxyz",
    "abc",
    "test",
    "login",
)
_T = TypeVar("_T")


def refuse_weak(password: str, *own: str) -> str:
    """Return a password as it is hashed, or raise `UserError` with what is wrong with it; `own` are its person's names.

    >>> refuse_weak("correct horse battery")
    'correct horse battery'
    """
    text = unicodedata.normalize("NFC", password)
    if len(text) < SHORTEST:
        raise UserError(f"A password has at least {SHORTEST} characters. A few words are good.")
    if len(text) > LONGEST:
        raise UserError(f"A password has at most {LONGEST} characters.")
    rest = re.sub(r"[\W\d_]+", "", text.casefold())
    words = [*_REFUSED, *(re.sub(r"[\W\d_]+", "", name.casefold()) for name in own)]
    for word in sorted({word for word in words if len(word) > 1}, key=len, reverse=True):
        rest = rest.replace(word, "")
    if len(set(text)) < 5 or (len(rest) < 2 and not _long_number(text)):
        raise UserError("This password is too easy to guess. Choose a few words of your own.")
    return text


def _long_number(text: str) -> bool:
    """Return whether it is of digits that are no row of keys."""
    digits = [int(each) for each in text if each.isascii() and each.isdigit()]
    steps = {(after - before) % 10 for before, after in pairwise(digits)}
    return len(digits) >= SHORTEST and len(steps) > 3


class Passwords:
    """Hashes passwords and compares them, a few at a time and outside the event loop.

    `work` counts how many it compared or made.
    """

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._slots, self._strangers = asyncio.Semaphore(_AT_ONCE), asyncio.Semaphore(_AT_ONCE - 1)
        self._waiting = 0
        self._nobodys = ""
        self.work = 0

    async def hashed(self, password: str) -> str:
        """Return the hash of a password."""
        return await self._slowly(lambda: self._hasher.hash(password))

    async def fits(self, hashed: str, password: str, *, known: bool = False) -> bool:
        """Return whether it is the password of this hash; with none, the same is done and the answer is no.

        A `known` browser has places that strangers from ever so many addresses do not take, and waits for none of them.
        """
        text = unicodedata.normalize("NFC", password)[: LONGEST + 1]
        if not self._nobodys:
            self._nobodys = await self._slowly(lambda: self._hasher.hash(secrets.token_hex(16)), known=known)
        fits = await self._slowly(lambda: self._compared(hashed or self._nobodys, text), known=known)
        return fits and bool(hashed) and len(text) <= LONGEST

    def stale(self, hashed: str) -> bool:
        """Return whether a hash was made with less work than is done now."""
        return self._hasher.check_needs_rehash(hashed)

    def _compared(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (Argon2Error, InvalidHashError, UnicodeError):
            return False

    async def _slowly(self, work: Callable[[], _T], *, known: bool = True) -> _T:
        if self._waiting >= (_WAITING + _KEPT if known else _WAITING):
            raise TooMany(5)
        self._waiting += 1
        try:
            async with contextlib.nullcontext() if known else self._strangers, self._slots:
                self.work += 1
                return await asyncio.to_thread(work)
        finally:
            self._waiting -= 1
