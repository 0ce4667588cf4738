"""Compare the name of a tool or agent with the pattern of a rule: as it stands, and by its words."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

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


def is_named_in_words(pattern: str, name: str) -> bool:
    """Return whether the words of a name match those of a pattern, however each of the two parts them.

    >>> is_named_in_words("delete_*", "__deleteFile"), is_named_in_words("deleteFile", "delete-file")
    (True, True)
    """
    return is_named("*".join(map(_in_words, pattern.split("*"))), _in_words(name).strip("_"))


@lru_cache(maxsize=1_024)
def _in_words(name: str) -> str:
    """Return a name as its words, in small letters with "_" between them.

    >>> _in_words("deleteFile"), _in_words("fs.delete-file2"), _in_words("DBDrop"), _in_words("deleteURLs")
    ('delete_file', 'fs_delete_file_2', 'db_drop', 'delete_urls')
    """
    return _BETWEEN_WORDS.sub("_", name).lower()
