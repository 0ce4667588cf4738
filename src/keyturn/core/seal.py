"""Seal lines: a hash chain with a key (a MAC) over a run's log, carried by the lines themselves.

A line is `body TAB seal`, a seal is `key id.MAC`. The MAC covers where the log belongs (tenant and run), the seal
before it and the digest of the body, so that no line can be changed, moved, left out or taken to another run by whoever
lacks the key. An erased line is `#digest TAB seal`: what it said is gone, and its chain still verifies. A tail that was
cut off together with its head count leaves a shorter chain that is good: only a head kept elsewhere tells.

Nothing here reads a key from anywhere or a line from a store: both are arguments.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Protocol, Self

from .errors import LogDamaged, UserError

TAB = b"\t"
ERASED = b"#"
_ID = 6
# 192 bits of the MAC are kept: far beyond guessing and beyond making two lines with one seal, in 32 letters.
_KEPT = 24
_LINE = "line"
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Hash(Protocol):
    """What is needed of one of `hashlib`'s hashes."""

    def copy(self) -> Self:
        """Copy the hash."""
        ...

    def update(self, data: bytes, /) -> None:
        """Add data."""
        ...

    def digest(self) -> bytes:
        """Return the digest."""
        ...


class Ring:
    """Holds secrets by the id of their key: the first one seals, all of them verify.

    Each purpose has a key of its own, derived from the secret, so that a MAC made for one is none for another.

    >>> new, old = Ring([b"new" * 8, b"old" * 8]), Ring([b"old" * 8])
    >>> new.fits("row", old.mac("row", b"text"), b"text"), old.fits("row", new.mac("row", b"text"), b"text")
    (True, False)
    """

    __slots__ = ("_newer", "_secrets", "ids", "retired")

    def __init__(
        self, secrets: Sequence[bytes], newer: Callable[[], Ring] | None = None, retired: Iterable[str] = ()
    ) -> None:
        """Make a ring; `newer` gives the one that stands in its place by now, asked where a key is not known.

        `retired` names keys that were taken away, to say so of what they signed.
        """
        if not secrets:
            raise UserError("a key ring needs at least one secret")
        self._secrets = {key_id(secret): secret for secret in secrets}
        self._newer = newer
        self.ids = tuple(self._secrets)
        self.retired = tuple(name for name in dict.fromkeys(retired) if name not in self._secrets)

    def __contains__(self, name: str) -> bool:
        return self._secret(name) is not None

    def _secret(self, name: str) -> bytes | None:
        known = self._secrets.get(name)
        if known is None and self._newer is not None:
            known = self._newer()._secrets.get(name)
        return known

    def mac(self, purpose: str, *message: bytes, key: str | None = None) -> str:
        """Authenticate a message with the newest key, or another of the ring; of several parts no other parts have it.

        >>> ring = Ring([b"secret" * 4])
        >>> ring.fits("who", ring.mac("who", b"ada", b"m1"), b"adam", b"1")
        False
        """
        name = self.ids[0] if key is None else key
        return f"{name}.{_mac(self._secrets[name], purpose, message)}"

    def fits(self, purpose: str, mac: str, *message: bytes) -> bool:
        """Return whether a MAC is one of these keys' for this purpose and this message, in these parts."""
        name, _, _ = mac.partition(".")
        secret = self._secret(name)
        if secret is None or not mac.isascii():
            return False
        return hmac.compare_digest(mac, f"{name}.{_mac(secret, purpose, message)}")


def _mac(secret: bytes, purpose: str, message: Sequence[bytes]) -> str:
    """Make an HMAC-SHA256 (RFC 2104) of a message, of several parts with the length of each before it.

    `hmac.digest` lets go of the interpreter's lock for the shortest message, and gets it back late where another thread
    wants it: many times the cost of the hash. Going on from two prepared hashes does not.
    """
    prepared_inner, prepared_outer = _prepared(secret, purpose)
    inner = prepared_inner.copy()
    for part in message:
        if len(message) > 1:
            inner.update(b"%d:" % len(part))
        inner.update(part)
    outer = prepared_outer.copy()
    outer.update(inner.digest())
    return b2a_base64(outer.digest()[:_KEPT], newline=False).translate(_URL_SAFE).decode()


@lru_cache(maxsize=64)
def _prepared(secret: bytes, purpose: str) -> tuple[Hash, Hash]:
    key = hmac.digest(secret, b"keyturn key for " + purpose.encode(), "sha256")
    block = key.ljust(64, b"\0")
    return hashlib.sha256(block.translate(_INNER)), hashlib.sha256(block.translate(_OUTER))


@lru_cache(maxsize=64)
def key_id(secret: bytes) -> str:
    """Return the public name of a secret's keys."""
    return urlsafe_b64encode(hashlib.sha256(b"keyturn key id\n" + secret).digest()).decode()[:_ID]


Keys = Callable[[], Ring]


class Chain:
    """Tracks how far a run's chain was verified: `count` lines, the last of which has the seal `last`.

    `keys` gives the ring; it is asked again where a line names a key that is not known yet, and where somebody goes on
    with a copy, since keys are added and retired while processes run.

    >>> ring = Ring([b"secret" * 4])
    >>> chain = Chain(lambda: ring, "default", "run")
    >>> line = chain.seal(b"{}")
    >>> chain.open(line), chain.count
    (b'{}', 1)
    >>> Chain(lambda: ring, "default", "other run").open(line)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    keyturn.core.errors.LogDamaged: line 0 of run 'other run' is not the line that was written there; ...
    """

    __slots__ = ("_keys", "_made", "_origin", "_ring", "count", "last", "run")

    def __init__(self, keys: Keys, tenant: str, run: str, last: bytes = b"", count: int = 0) -> None:
        self._keys = keys
        self._ring = keys()
        self._origin = origin(tenant, run)
        self.run = run
        self.last = last
        self.count = count
        self._made = (b"", b"")

    def copy(self) -> Chain:
        """Copy the chain, to go on from here with the keys that count now: one may have been retired."""
        made: Chain = Chain.__new__(Chain)
        made._keys = self._keys
        made._ring = self._keys()
        made._origin = self._origin
        made.run = self.run
        made.last = self.last
        made.count = self.count
        made._made = (b"", b"")
        return made

    def seal(self, body: bytes) -> bytes:
        """Seal the body that comes next; the chain goes on only when that was stored."""
        self._ring = self._keys()
        mac = self._ring.mac(_LINE, self._covered(hashlib.sha256(body).digest()))
        line = body + TAB + mac.encode()
        self._made = (line, body)
        return line

    def kept(self, line: bytes) -> bytes:
        """Go on past a line that was sealed here and was stored; return its body."""
        made, body = self._made
        self._made = (b"", b"")
        if made is not line:
            body = body_of(line)
        self.last = line[len(body) + 1 :]
        self.count += 1
        return body

    def open(self, line: bytes) -> bytes:
        """Verify the next line and go on past it; return its body, or raise `LogDamaged`."""
        body, _, seal = line.partition(TAB)
        if not self._fits(hashlib.sha256(body).digest(), seal):
            raise self._damaged(line)
        self.last = seal
        self.count += 1
        return body

    def passes(self, digest: str, seal: str) -> bool:
        """Verify the next line by its digest alone, and go on past it, as for an erased one."""
        try:
            fits = self._fits(bytes.fromhex(digest), seal.encode())
        except ValueError:  # neither digest nor seal, UnicodeEncodeError included
            return False
        if fits:
            self.last = seal.encode()
            self.count += 1
        return fits

    def seal_digest(self, digest: str) -> str:
        """Seal the next line by the digest of its body, and go on past it; return the seal."""
        self._ring = self._keys()
        seal = self._ring.mac(_LINE, self._covered(bytes.fromhex(digest)))
        self.last = seal.encode()
        self.count += 1
        return seal

    def _covered(self, digest: bytes) -> bytes:
        return self._origin + digest + self.last

    def _fits(self, digest: bytes, seal: bytes) -> bool:
        if not seal.isascii():
            return False
        mac = seal.decode()
        if mac[:_ID] not in self._ring:
            self._ring = self._keys()
        return self._ring.fits(_LINE, mac, self._covered(digest))

    def _damaged(self, line: bytes) -> LogDamaged:
        body, tab, seal = line.partition(TAB)
        named = seal[:_ID].decode("ascii", "replace")
        if body.startswith(ERASED):
            why = "was erased, and the run was not"
        elif not tab and body.startswith(b'{"at":'):
            why = "was written by an older format, which this version does not read"
        elif seal[_ID : _ID + 1] == b"." and named in self._ring.retired:
            why = f"is sealed with key {named}, which was retired: put its secret back to read the run"
        elif seal[_ID : _ID + 1] == b"." and named not in self._ring:
            why = "is sealed with a key that this process does not have (keyturn keys list names those it has)"
        else:
            why = "is not the line that was written there"
        return LogDamaged(self.run, self.count, why)


def origin(tenant: str, run: str) -> bytes:
    """Return the digest of a tenant and a run together, encoded so that neither can be stretched into the other.

    >>> origin("ab", "c") == origin("a", "bc")
    False
    """
    names = [name.encode("utf-8", "surrogatepass") for name in (tenant, run)]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(name), name) for name in names)).digest()


def body_of(line: bytes) -> bytes:
    """Return the body of a line, sealed or not, unverified."""
    return line.partition(TAB)[0]


def parted(line: bytes) -> tuple[str, str]:
    """Split a line into its body's digest and its seal, unverified; an erased line has them as it was.

    >>> parted(b"#00ff\\tkey.mac")
    ('00ff', 'key.mac')
    """
    body, _, seal = line.partition(TAB)
    digest = body[1:].decode("latin-1") if body.startswith(ERASED) else hashlib.sha256(body).hexdigest()
    return digest, seal.decode("latin-1")


def erased(line: bytes) -> bytes:
    """Return what a line's chain needs, without what the line said.

    >>> erased(erased(b"{}\\tkey.mac")) == erased(b"{}\\tkey.mac")
    True
    """
    digest, seal = parted(line)
    return ERASED + digest.encode("latin-1") + TAB + seal.encode("latin-1")


def verify(chain: Chain, links: Iterable[tuple[str, str]]) -> int | None:
    """Find the first line that is not the one that was written there; None if all are.

    `links` are the digests and seals of the lines.
    """
    return next((place for place, link in enumerate(links) if not chain.passes(*link)), None)
