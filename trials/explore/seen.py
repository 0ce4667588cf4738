"""A set of 16-byte digests in an array: ten million of them take a quarter of a gigabyte."""

from __future__ import annotations

from array import array
from typing import Any

_WORD = 8


class Seen:
    """Open addressing over two arrays of 64-bit numbers; a digest that is all zeros cannot be held."""

    def __init__(self, bits: int = 12) -> None:
        self._mask = (1 << bits) - 1
        self._high: array[int] = array("Q", bytes(_WORD << bits))
        self._low: array[int] = array("Q", bytes(_WORD << bits))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, digest: bytes) -> bool:
        """Add a digest; False where it was there."""
        if self._put(int.from_bytes(digest[:_WORD], "little"), int.from_bytes(digest[_WORD:], "little")):
            self._count += 1
            if self._count * 10 > self._mask * 7:
                self._grow()
            return True
        return False

    def _put(self, high: int, low: int) -> bool:
        highs, lows, mask = self._high, self._low, self._mask
        place = high & mask
        while highs[place] or lows[place]:
            if highs[place] == high and lows[place] == low:
                return False
            place = (place + 1) & mask
        highs[place], lows[place] = high, low
        return True

    def _grow(self) -> None:
        before: Any = zip(self._high, self._low, strict=True)
        bits = self._mask.bit_length() + 1
        self._mask = (1 << bits) - 1
        self._high, self._low = array("Q", bytes(_WORD << bits)), array("Q", bytes(_WORD << bits))
        for high, low in before:
            if high or low:
                self._put(high, low)
