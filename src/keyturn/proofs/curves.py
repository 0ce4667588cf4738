"""Refuse keys for which anybody could sign: small RSA numbers, and points of Ed25519 that hold no secret."""

from __future__ import annotations

from typing import Any

from ..core.people import ProofRefused

RSA_BITS = (2_048, 8_192)
_LEAST_EXPONENT = 65_537
_PRIME = 2**255 - 19
# The y of every point whose order divides 8: a signature by such a "key" can be made for any message, without a secret.
# Of the two y of order 8 each is the other's negative; a y may also be written as itself plus the prime.
_EIGHTH = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL = frozenset({0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH})


def check_rsa(key: Any) -> None:
    """Refuse an RSA key of a size or an exponent with which nobody signs today."""
    least, most = RSA_BITS
    if not least <= key.key_size <= most:
        raise ProofRefused(f"a key of RSA has {least} to {most} bits, this one has {key.key_size}")
    if key.public_numbers().e < _LEAST_EXPONENT:
        raise ProofRefused(f"the exponent of a key of RSA is {_LEAST_EXPONENT} or more")


def check_ed25519(raw: bytes) -> None:
    """Refuse the 32 bytes of a public key that is a point of small order, or written in a way that no key is."""
    if len(raw) != 32:
        raise ProofRefused("a key of Ed25519 has 32 bytes")
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y >= _PRIME or y in _SMALL:
        raise ProofRefused("it is not a valid key: anyone could sign for it")
