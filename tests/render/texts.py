"""Every character there is, where each may stand, and which a reader could not see. No test is here."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain

from keyturn.core.preview import Block, Command, Diff, Json, Preview, Text
from tests.effort import AT_LENGTH


def every() -> str:
    """Every character, made when it is asked for: no test keeps a million of them.

    Of ideographs beyond the first two planes, of where Unicode has no character, and of what is for private use, it is
    each 64th in `make test`, and all of them at length: of each is known its category alone, which its neighbours have.
    """
    return "".join(map(chr, range(0x110000))) if AT_LENGTH else "".join(map(chr, chain(*_SOME)))


def chunks() -> Iterator[str]:
    """The same, in pieces."""
    text = every()
    return (text[start : start + 0x4000] for start in range(0, len(text), 0x4000))


_SOME = (range(0x20000), range(0x2003F, 0xE0000, 64), range(0xE0000, 0xE2000), range(0xE203F, 0x110000, 64))


@cache
def notables() -> list[str]:
    """Whatever is no plain letter, and every hundredth of what is.

    Every field times every code point takes a minute, so all of them go through one field and these through every one.
    """
    plain = {"Lo", "Ll", "Lu", "So", "Cn", "Co", "Cs"}
    chosen = [char for char in every() if ord(char) % 101 == 0 or unicodedata.category(char) not in plain]
    return ["x".join(chosen[start : start + 0x1000]) for start in range(0, len(chosen), 0x1000)]


HIDDEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"}
IGNORED = set(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000), *range(0x180B, 0x1810), 0x34F, 0x3164]))


def unseen(shown: str) -> set[str]:
    """What a reader of `shown` could not see, or would see the effect of."""
    chars = set(shown) - {" ", "\n"}
    return {char for char in chars if unicodedata.category(char) in HIDDEN or char in IGNORED}


def everywhere(text: str) -> Preview:
    """The text in every field of every block that can hold it."""
    blocks: tuple[Block, ...] = (
        Text(text, text),
        Command(text, text, text),
        Diff("kept\n" + text, text + "\nkept", text, text),
        Json({text: [text, {"deep": text}]}, text),
    )
    return Preview(blocks, summary=text)
