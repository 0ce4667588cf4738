"""Bound what a command wrote: its beginning and its end are kept, and a mark says what was cut in between.

However much is written, memory stays small. Bytes that are no text become the replacement character.
"""

from __future__ import annotations

import codecs

LENGTH = 32_000
LENGTH_AT_MOST = 200_000


def allowed_length(asked: int | None) -> int:
    """Return how many characters of a command's output the model gets, for what it asked for.

    >>> allowed_length(None), allowed_length(500), allowed_length(10**9)
    (32000, 500, 200000)
    """
    return LENGTH if asked is None else min(asked, LENGTH_AT_MOST)


class Kept:
    """Keeps the first and the last `limit` characters of a text of any length.

    >>> kept = Kept(100)
    >>> kept.add(b"x" * 5000)
    >>> kept.shown(61)
    'xxxxxxxxxx\\n[... 4,980 of 5,000 characters cut ...]\\nxxxxxxxxxx'
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._head: list[str] = []
        self._room = limit
        self._tail = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes, *, final: bool = False) -> None:
        """Add bytes; the last piece may end within a character."""
        self.add_text(self._decoder.decode(data, final))

    def add_text(self, text: str) -> None:
        """Add text."""
        self.total += len(text)
        if self._room:
            self._head.append(text[: self._room])
            taken = len(self._head[-1])
            self._room -= taken
            text = text[taken:]
        if text:
            self._tail = (self._tail + text[-self.limit :])[-self.limit :] if self.limit else ""

    def shown(self, most: int) -> str:
        """Return the whole text, or its beginning and end with a mark between them: at most `most` characters."""
        head = "".join(self._head)
        if self.total <= min(most, self.limit):
            return head
        for mark in (f"\n[... {self.total:,} of {self.total:,} characters cut ...]\n", "[cut]", "…"):
            room = most - len(mark)
            if room >= 0:
                break
        else:
            return ""
        first, last = room - room // 2, room // 2
        if len(mark) > 5:
            mark = f"\n[... {self.total - room:,} of {self.total:,} characters cut ...]\n"
        end = (head + self._tail)[-last:] if last else ""
        return f"{head[:first]}{mark}{end}"


def fitted(stdout: Kept, stderr: Kept, most: int) -> tuple[str, str]:
    """Fit stdout and stderr in `most` characters together.

    Errors are rarely long and often tell why: they get half at least.

    >>> out, err = Kept(100), Kept(100)
    >>> out.add(b"o" * 400), err.add(b"no such file")
    (None, None)
    >>> [len(text) for text in fitted(out, err, 80)]
    [68, 12]
    """
    errors = stderr.shown(max(most - most // 2, most - stdout.total))
    return stdout.shown(most - len(errors)), errors


def kept_text(text: str, limit: int = LENGTH_AT_MOST) -> Kept:
    """Return a complete text as a `Kept` one that can be shown shorter.

    >>> kept_text("all of it").shown(9)
    'all of it'
    """
    kept = Kept(limit)
    kept.add_text(text)
    return kept
