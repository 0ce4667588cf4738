"""Compare the name of a tool or agent with the pattern of a rule: as it stands, and by its words."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

_BETWEEN_WORDS = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def is_named(pattern: str | None, name: str) -> bool:
    """Return whether a name matches; None matches any.

    >>> is_named("read*", "read_file"), is_named("read?", "reads")
    (True, False)
    """
    if pattern is None or "*" not in pattern:
        return pattern is None or pattern == name
    # Only the asterisk is special: a tool may well be called "read[1]?", and that must not let "read1x" in.
    return fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))


@lru_cache(maxsize=1_024)
def in_words(name: str) -> str:
    """Return a name as its words, in small letters with "_" between them.

    >>> in_words("deleteFile"), in_words("fs.delete-file"), in_words("DBDrop")
    ('delete_file', 'fs_delete_file', 'db_drop')
    """
    return _BETWEEN_WORDS.sub("_", name).lower()
