"""Compare the name of a tool or agent with the pattern of a rule: as it stands, and by its words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from ..core.lookalikes import in_ascii

_LONGEST = 1_000
_BETWEEN_WORDS = re.compile(
    r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[a-z])"
)


def is_named(pattern: str | None, name: str) -> bool:
    """Return whether a name matches; None matches any.

    >>> is_named("read*", "read_file"), is_named("read?", "reads")
    (True, False)
    """
    if pattern is None or "*" not in pattern:
        return pattern is None or pattern == name
    # Only the asterisk is special: a tool may well be called "read[1]?", and that must not let "read1x" in.
    return fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))


@lru_cache(maxsize=4_096)
def is_named_in_words(pattern: str, name: str) -> bool:
    """Return whether the words of a name match those of a pattern, however each of the two parts and draws them.

    A name that is longer than people read matches any.

    >>> is_named_in_words("delete_*", "__deleteFile"), is_named_in_words("deleteFile", "d\u00e9l\u00e9te-\uff26ile")
    (True, True)
    """
    if len(name) > _LONGEST:
        return True
    readings = [(_read(pattern, cased), _in_words(name, cased).strip("_")) for cased in (True, False)]
    patterns, names = zip(*readings, strict=True)
    return any(is_named(one, other) for one in dict.fromkeys(patterns) for other in dict.fromkeys(names))


def _read(pattern: str, cased: bool) -> str:
    return "*".join(_in_words(part, cased) for part in pattern.split("*"))


def _in_words(name: str, cased: bool = True) -> str:
    """Return a name as its words, in small letters with "_" between them; where a word begins, its case may say.

    >>> _in_words("deleteFile"), _in_words("fs.delete-file2"), _in_words("DBDrop"), _in_words("deleteURLs")
    ('delete_file', 'fs_delete_file_2', 'db_drop', 'delete_urls')
    >>> _in_words("DeLeTe.FILE", cased=False)
    'delete_file'
    """
    drawn = in_ascii(name)
    shape = "".join(map(_shape, drawn))
    return "_".join(_pieces(drawn, _BETWEEN_WORDS.finditer(shape if cased else shape.lower()))).casefold()


def _pieces(text: str, between: Iterator[re.Match[str]]) -> Iterator[str]:
    begun = 0
    for gap in between:
        yield text[begun : gap.start()]
        begun = gap.end()
    yield text[begun:]


def _shape(char: str) -> str:
    """Return a character of ASCII that parts words as this one does."""
    if char.isascii():
        return char
    if char.isdigit():
        return "0"
    return "A" if char.isupper() else "a" if char.isalpha() else "_"
