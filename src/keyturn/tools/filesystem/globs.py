"""Glob patterns over paths: `*`, `?` and `[...]` inside one name, `**` for any number of directories, `{a,b}`.

Matched name by name, so that no pattern, whoever wrote it, takes more than a moment. Only the standard library is used:
searches run in a bare process of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate

MOST_VARIANTS, LONGEST = 64, 1000
# The first comma alone is looked for: of a thousand, each would be.
_CHOICE = re.compile(r"\{([^{},]*,[^{}]*)\}")
_ANY: None = None  # stands for "**"
_Segment = Callable[[str], object] | None


class BadGlob(ValueError):
    """Raised for a pattern that cannot be used; the text says why.

    >>> issubclass(BadGlob, ValueError)
    True
    """


class Glob:
    """Matches paths relative to the directory of the pattern.

    >>> Glob("src/**/*.{py,pyi}").matches("src/app/main.py")
    True
    >>> Glob("*.py").matches("src/main.py")
    False
    """

    def __init__(self, pattern: str, *, braces: bool = True) -> None:
        if not pattern or len(pattern) > LONGEST or "\0" in pattern:
            raise BadGlob(f"a pattern must have 1 to {LONGEST} characters")
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise BadGlob("a pattern must be relative and without '..'")
        self.hidden = any(name.startswith(".") and name != "." for name in re.split(r"[/{,]", pattern))
        self._variants = [_segments(each) for each in (_expanded(pattern) if braces else [pattern])]

    def matches(self, path: str) -> bool:
        """Return whether the whole path fits."""
        names = path.split("/")
        return any(_fits(variant, names) for variant in self._variants)


def below(pattern: str, directory: Sequence[str]) -> list[str]:
    """Return what a pattern means below a directory: the patterns of which a path there must fit one.

    >>> below("src/*.py", ["src"]), below("*/**/a", ["src"]), below("docs/*", ["src"])
    (['*.py'], ['**/a'], [])
    """
    rests = [_rest(each.split("/")) for each in _expanded(pattern)]
    for name in directory:
        rests = list(dict.fromkeys(left for rest in rests for left in _after(rest, name)))
    return list(dict.fromkeys("/".join(rest) for rest in rests if rest))


def _rest(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a pattern without those that change nothing, of which two "**" in a row are one."""
    kept = [name for name in names if name not in ("", ".")]
    return tuple(name for at, name in enumerate(kept) if name != "**" or at == 0 or kept[at - 1] != "**")


def _after(rest: tuple[str, ...], name: str) -> Iterator[tuple[str, ...]]:
    """Yield what is left of a pattern behind a directory of that name."""
    if rest and rest[0] == "**":
        yield rest
        rest = rest[1:]
    if rest and re.match(name_regex(rest[0]), name):
        yield rest[1:]


def name_regex(segment: str) -> str:
    """Convert one name of a pattern to a regular expression; a backslash makes the next character plain."""
    plain = re.sub(r"\\(.)", _plain, segment) if "\\" in segment else segment
    # The standard library's own translation does not go back over what a star has matched.
    return translate(plain)


def _plain(escaped: re.Match[str]) -> str:
    return f"[{escaped[1]}]" if escaped[1] in "*?[" else escaped[1]


def _segments(pattern: str) -> list[_Segment]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    return [_ANY if name == "**" else re.compile(name_regex(name)).match for name in names]


def _fits(segments: Sequence[_Segment], names: Sequence[str]) -> bool:
    """Match with every "**" as short as it can be: it never helps that an earlier one takes more."""
    at = name = 0
    retry: tuple[int, int] | None = None
    while name < len(names):
        segment = segments[at] if at < len(segments) else ...
        if segment is _ANY:
            at += 1
            retry = (at, name)
        elif callable(segment) and segment(names[name]):
            at += 1
            name += 1
        elif retry is not None:
            retry = (retry[0], retry[1] + 1)
            at, name = retry
        else:
            return False
    return all(segment is _ANY for segment in segments[at:])


def _expanded(pattern: str) -> list[str]:
    """Expand the braces of a pattern; one without a comma stands for itself."""
    found = _CHOICE.search(pattern)
    if found is None:
        return [pattern]
    made: list[str] = []
    for part in found[1].split(","):
        made += _expanded(pattern[: found.start()] + part + pattern[found.end() :])
        if len(made) > MOST_VARIANTS:
            raise BadGlob(f"the braces expand to more than {MOST_VARIANTS} patterns")
    return made
