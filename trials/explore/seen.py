"""A table from 16-byte digests to the order in which they came: ten million of them take some 250 MB."""

from __future__ import annotations

from array import array

_WORD = 8


class Seen:
    """Open addressing over places in two arrays of 64-bit numbers, which hold the digests in their order."""

    def __init__(self, bits: int = 12) -> None:
        self._mask = (1 << bits) - 1
        self._places: array[int] = array("I", bytes(4 << bits))  # 1 + the place of a digest; 0 where there is none
        self._high: array[int] = array("Q")
        self._low: array[int] = array("Q")

    def __len__(self) -> int:
        return len(self._high)

    def place(self, digest: bytes) -> int:
        """Return the place of a digest; one that is new gets the next, which was the length."""
        high, low = int.from_bytes(digest[:_WORD], "little"), int.from_bytes(digest[_WORD:], "little")
        places, mask = self._places, self._mask
        slot = high & mask
        while found := places[slot]:
            if self._high[found - 1] == high and self._low[found - 1] == low:
                return found - 1
            slot = (slot + 1) & mask
        self._high.append(high)
        self._low.append(low)
        count = places[slot] = len(self._high)
        if count * 10 > mask * 7:
            self._grow()
        return count - 1

    def _grow(self) -> None:
        bits = self._mask.bit_length() + 1
        self._mask = mask = (1 << bits) - 1
        places: array[int] = array("I", bytes(4 << bits))
        for count, high in enumerate(self._high, 1):
            slot = high & mask
            while places[slot]:
                slot = (slot + 1) & mask
            places[slot] = count
        self._places = places
