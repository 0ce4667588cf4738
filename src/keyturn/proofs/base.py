"""The seam to signature schemes: a key is enrolled as text that the directory keeps, and verifies proofs ever after.

Nothing is trusted but that text: a proof, a key and a challenge go in, and what the proof shows comes out, or
`ProofRefused`. There is no network, no clock and no state: what was counted before is an argument.
"""

from __future__ import annotations

import base64
import binascii
import re
from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec

from ..core.errors import UserError
from ..core.people import Proof, ProofRefused, plain_text

CHALLENGE_BYTES = 32
# What a person can send: far above the largest proof there is, far below what costs anything to read.
MOST_PROOF = 32_768
MOST_LABEL = 200

# rp id: a name of a host, never an address: browsers do not take one.
_HOST = re.compile(r"(?!-)[a-z0-9-]{1,63}(?:\.(?!-)[a-z0-9-]{1,63})*")
_ORIGIN = re.compile(r"(https?)://([a-z0-9.-]{1,253})(?::([1-9][0-9]{0,4}))?")


class PublicKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Holds an enrolled key as the directory keeps it: its scheme, its fingerprint, its text, a person's name for it.

    >>> PublicKey("ssh", "SHA256:5e1f", "ssh-ed25519 AAAA", "laptop").label
    'laptop'
    """

    scheme: str
    id: str
    data: str
    label: str = ""


class Checked(msgspec.Struct, frozen=True, gc=False):
    """Holds what a proof shows beside being good: the key's count of its signatures, and what the person did.

    `count` is None for keys that do not count. `present` says that the key saw a touch, `verified` that it knew the
    person, by a PIN or a finger; for a key in a file both are False, which means that the key cannot tell.
    """

    count: int | None = None
    present: bool = False
    verified: bool = False


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names the web site that a browser's key belongs to: its relying party id and the origins that serve its pages.

    >>> Site("localhost", ("http://localhost:8177",)).rp
    'localhost'
    """

    rp: str
    origins: tuple[str, ...]

    def __post_init__(self) -> None:
        rp: object = self.rp
        if not isinstance(rp, str) or not _HOST.fullmatch(rp) or rp.replace(".", "").isdigit() or len(rp) > 253:
            raise UserError(f"rp is the name of a host in small letters, such as 'inbox.example.com', not {rp!r}")
        origins: object = self.origins
        if not isinstance(origins, tuple) or not origins:
            raise UserError("origins is a tuple of at least one origin, such as ('https://inbox.example.com',)")
        for origin in self.origins:
            _check_origin(origin, self.rp)


class Asked(msgspec.Struct, frozen=True):
    """Holds what an enrolment answers: the challenge that was asked, and the site that asked it.

    >>> Asked(b"c" * 32, Site("localhost", ("http://localhost",))).site.rp
    'localhost'
    """

    challenge: bytes
    site: Site


class Scheme(ABC):
    """Enrols keys of one kind and verifies what they sign; a member says how, the checks that all share are here."""

    name: ClassVar[str]

    @abstractmethod
    def enrol(self, given: str, *, label: str = "", asked: Asked | None = None) -> PublicKey:
        """Read a key from what its person gives, or raise `ProofRefused`.

        `asked` is for schemes whose enrolment answers a challenge; the others refuse it.
        """

    @abstractmethod
    def fingerprint(self, data: str) -> str:
        """Return the id of a key from its text, or raise `ProofRefused`."""

    @abstractmethod
    def _check(self, public: PublicKey, challenge: bytes, data: bytes, last_count: int | None) -> Checked:
        """Verify the bytes of a proof; whatever it raises is a refusal."""

    @abstractmethod
    def require(self) -> None:
        """Raise `UserError` with the name of the extra where a package is missing."""

    def verify(self, public: PublicKey, challenge: bytes, proof: Proof, *, last_count: int | None = None) -> Checked:
        """Verify that this key signed exactly this challenge, or raise `ProofRefused`, and nothing else for any input.

        `last_count` is the count of the last proof of this key that was accepted, None where none is known: a key that
        counts must have counted on since.
        """
        self.require()
        _check_call(challenge, last_count)
        if public.scheme != self.name or proof.scheme != self.name:
            raise ProofRefused(f"a key of {self.name!r} takes a proof of {self.name!r}")
        if proof.key != public.id:
            raise ProofRefused("it names another key")
        data: object = proof.data
        if not isinstance(data, bytes) or not 0 < len(data) <= MOST_PROOF:
            raise ProofRefused(f"a proof has at most {MOST_PROOF} bytes")
        try:
            if self.fingerprint(public.data) != public.id:
                raise ProofRefused("the key's text is not that of its id")
            checked = self._check(public, challenge, data, last_count)
        except ProofRefused:
            raise
        except Exception as error:  # a proof is what a stranger sent: whatever it makes a parser raise refuses it
            raise ProofRefused(f"it cannot be read ({type(error).__name__})") from None
        if checked.count is not None and last_count and checked.count <= last_count:
            raise ProofRefused(
                "the counter of the key did not increase: the key was copied, or the proof is an old one"
            )
        return checked


def _check_call(challenge: object, last_count: object) -> None:
    """Refuse what the caller got wrong; a person's proof has no part in it."""
    if not isinstance(challenge, bytes) or len(challenge) != CHALLENGE_BYTES:
        raise UserError(f"challenge is the {CHALLENGE_BYTES} bytes of decision_challenge() or key_challenge()")
    whole = isinstance(last_count, int) and not isinstance(last_count, bool) and last_count >= 0
    if last_count is not None and not whole:
        raise UserError(f"last_count is a whole number, or None; not {last_count!r}")


def checked_label(label: object) -> str:
    """Return a person's name for a key, or raise `UserError`: one short line of plain text.

    >>> checked_label(" laptop ")
    'laptop'
    """
    text = plain_text(label, "the label of a key").strip()
    if len(text) > MOST_LABEL or not text.isprintable():
        raise UserError(f"the label of a key is one line of at most {MOST_LABEL} characters")
    return text


def strict_base64(text: str, what: str, *, url: bool = False) -> bytes:
    """Decode the one base64 text of some bytes, or raise `ProofRefused`; with `url` the alphabet of URLs, unpadded.

    >>> strict_base64("-_8", "the id", url=True)
    b'\\xfb\\xff'
    """
    try:
        if url:
            made = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        else:
            made = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        raise ProofRefused(f"{what} is not base64") from None
    # Decoders skip what they do not know, and the last letter may hold bits that nobody reads.
    again = base64url(made) if url else base64.b64encode(made).decode()
    if again != text:
        raise ProofRefused(f"{what} is not base64")
    return made


def base64url(data: bytes) -> str:
    """Encode bytes as base64 with the alphabet of URLs, without padding.

    >>> base64url(b"\\xfb\\xff")
    '-_8'
    """
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _check_origin(origin: object, rp: str) -> None:
    match = _ORIGIN.fullmatch(origin) if isinstance(origin, str) else None
    if match is None:
        raise UserError(
            f"an origin is a scheme, a host and perhaps a port, 'https://inbox.example.com', not {origin!r}"
        )
    scheme, host, port = match.groups()
    if host != rp and not host.endswith(f".{rp}"):
        raise UserError(f"the origin {origin!r} is not of the host {rp!r}, and no browser would use its keys there")
    if port is not None and (int(port) > 65_535 or int(port) == {"https": 443, "http": 80}[scheme]):
        raise UserError(f"a browser leaves the usual port out of an origin, and no port is above 65535: {origin!r}")
    if scheme == "http" and host != "localhost" and not host.endswith(".localhost"):
        raise UserError(f"browsers have passkeys on https only, and on http://localhost: not {origin!r}")
