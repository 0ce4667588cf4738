"""Read and write the data types of SSH (RFC 4251, section 5), each in the one way it can be written."""

from __future__ import annotations

from ..core.people import ProofRefused


class Wire:
    """Reads a sequence of fields; whatever is missing, left over or written in another way is refused.

    >>> Wire(bytes.fromhex("000000026869")).string()
    b'hi'
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stop = len(data)

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if count > self._stop - self._at:
            raise ProofRefused("it is cut short")
        begin = self._at
        self._at += count
        return self._data[begin : self._at]

    def tail(self, count: int) -> bytes:
        """Take the last bytes of all, so that what comes before them can be read up to its own end."""
        if count > self._stop - self._at:
            raise ProofRefused("it is cut short")
        self._stop -= count
        return self._data[self._stop : self._stop + count]

    def number(self) -> int:
        """Return a uint32."""
        return int.from_bytes(self.take(4), "big")

    def string(self) -> bytes:
        """Return a string."""
        return self.take(self.number())

    def integer(self) -> int:
        """Return a positive mpint; one that is negative, zero or longer than it needs to be is refused."""
        raw = self.string()
        padded = len(raw) > 1 and raw[0] == 0 and raw[1] < 0x80
        if not raw or raw[0] >= 0x80 or raw == b"\0" or padded:
            raise ProofRefused("a number in it is not written as numbers are")
        return int.from_bytes(raw, "big")

    def end(self) -> None:
        """Refuse what is left over."""
        if self._at != self._stop:
            raise ProofRefused("something follows its end")


def packed(*strings: bytes) -> bytes:
    """Write strings one after another.

    >>> packed(b"hi").hex()
    '000000026869'
    """
    return b"".join(len(string).to_bytes(4, "big") + string for string in strings)
