"""The rules of .gitignore and .ignore files: what a search skips.

A file's rules are about what is below it; of several that fit, the last one counts, and a deeper file's before a higher
one's. Only the standard library is used: searches run in a bare process of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .globs import BadGlob, Glob, name_regex

FILES = (".gitignore", ".ignore")  # the second one's rules count more
MOST_BYTES, MOST_RULES = 1 << 20, 5000


class Rules:
    """Matches paths against the rules of one file, relative to its directory.

    >>> rules = Rules("*.log\\n!keep.log\\n/build/\\n")
    >>> rules.ignores("a/b.log", False), rules.ignores("keep.log", False), rules.ignores("main.py", False)
    (True, False, None)
    >>> rules.ignores("build", True), rules.ignores("build", False)
    (True, None)
    """

    def __init__(self, text: str) -> None:
        self._rules: list[tuple[bool, bool, Callable[[str, str], object]]] = []
        names: list[str] = []
        self._has_paths = False
        for line in text.split("\n")[:MOST_RULES]:
            self._add(line.removesuffix("\r"), names)
        # Most names fit no rule: one look at all rules about names at once tells it.
        self._any_name = re.compile("|".join(names) or r"(?!)").match

    def ignores(self, path: str, directory: bool) -> bool | None:
        """Return True to skip a path, False to take it in spite of rules above, None where no rule fits."""
        name = path.rpartition("/")[2]
        if not self._has_paths and not self._any_name(name):
            return None
        for negated, only_directories, fits in reversed(self._rules):
            if (directory or not only_directories) and fits(path, name):
                return not negated
        return None

    def _add(self, line: str, names: list[str]) -> None:
        line = _without_spaces(line)
        if not line or line.startswith("#"):
            return
        negated = line.startswith("!")
        pattern = line[1:] if negated else line
        only_directories = pattern.endswith("/")
        pattern = pattern.rstrip("/")
        if "/" not in pattern.removeprefix("**/"):
            pattern = pattern.removeprefix("**/")
            source = name_regex(pattern)
            fits = _by_name(source)
            names.append(source)
        else:
            fits = _by_path(pattern.lstrip("/"))
            self._has_paths = True
        if pattern and fits is not None:
            self._rules.append((negated, only_directories, fits))


def _by_name(source: str) -> Callable[[str, str], object]:
    match = re.compile(source).match
    return lambda _path, name: match(name)


def _by_path(pattern: str) -> Callable[[str, str], object] | None:
    # "a/**" is about what is in a, not a itself.
    try:
        glob = Glob(f"{pattern}/*" if pattern.endswith("/**") else pattern, braces=False)
    except BadGlob:
        return None
    return lambda path, _name: glob.matches(path)


def _without_spaces(line: str) -> str:
    bare = line.rstrip(" \t")
    return f"{bare} " if bare.endswith("\\") and bare != line else bare
