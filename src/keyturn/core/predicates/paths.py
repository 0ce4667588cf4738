"""Parse paths as their readers do: names, ways out of a directory, and expansions of a shell.

All of it is of one text as it stands; which readings of a text there are is in `reading.py`.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from posixpath import normpath

# No file system takes a longer one.
MOST_OF_A_NAME = 255

# What one reader of a path takes for a name and another for a way out: a control character, a line's end, a backslash,
# two slashes in front, what looks like a slash, and an escape that is none or stands for one of those.
_ODD_PATH = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u2044\u2215\u2216\u29f5\u29f8\ud800-\udfff\ufffd\\]|\A//|%(?:00|25|2e|2f|5c|u[0-9a-f]{4})|&#",
    re.IGNORECASE,
)
# A home, a drive or the scheme of an address: the path begins somewhere else than where it seems to.
_ELSEWHERE = re.compile(r"\A~|\A[a-z][a-z0-9+.-]*:")
# To a shell: the output of a command, a quoted escape, names that begin with a dot and may match "..".
_ANYTHING = re.compile(r"`|\$[({'\"]|(?:\A|/)\.[^/*?\[]*[*?\[]|[@!+*?]\(")
# Where Windows, a server or the reader of an address cuts a name: at a stream, a parameter, a query.
_CUT = re.compile(r"[:;#?]")
_WILD = re.compile(r"[*?\[{$]|~[0-9]")


def names_of(path: str, cut: bool = False) -> tuple[str, ...]:
    """Return the names of a path without spaces and dots around them.

    With `cut`, also without what follows a mark such as ":".

    A name of dots and spaces is a way out to one reader and nothing to another: here it is a way out if it is cut.
    """
    names: list[str] = []
    for written in path.replace("\\", "/").split("/"):
        if written.isalnum():
            names.append(written)
            continue
        name = written.strip().rstrip(" .") or written.strip()
        if cut and len(name) > 2:
            name = _CUT.split(name, maxsplit=1)[0]
            name = name if name.strip(". ") else ".."
        if name == ".." and names and names[-1] != "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return tuple(names)


def shortest(path: str) -> str:
    """Return a path as normpath leaves it, with slashes for backslashes."""
    made = normpath(path.replace("\\", "/"))
    return made[1:] if made.startswith("//") else made


def leads_out(path: str) -> bool:
    """Return whether a name, up to where it may be cut, is dots and spaces, and more than one dot."""
    return ".." in path.replace(" ", "") and any(
        ".." in name.replace(" ", "") and not _CUT.split(name, maxsplit=1)[0].replace(".", "").strip()
        for name in path.split("/")
    )


def may_be_anything(path: str) -> bool:
    """Return whether a shell would expand a part of the path, so that it leads anywhere.

    >>> may_be_anything("/srv/`cat x`"), may_be_anything("/srv/{a,../b}"), may_be_anything("/srv/[id]/$x")
    (True, True, False)
    """
    return _ANYTHING.search(path) is not None or ("{" in path and ("," in path or ".." in path))


def is_odd(path: str) -> bool:
    """Return whether tools read a path differently.

    >>> is_odd("/srv/data/a b"), is_odd("/srv/../etc"), is_odd("/srv/%2e%2e/etc"), is_odd("/srv/.. ")
    (False, True, True, True)
    """
    return _ODD_PATH.search(path) is not None or leads_out(path)


def is_elsewhere(path: str) -> bool:
    """Return whether a folded path begins at a home, a drive or the scheme of an address."""
    return _ELSEWHERE.search(path) is not None


def is_under(path: str, root: str) -> bool:
    """Return whether a path that is not odd is under a root, as it stands."""
    top = _top(root)
    plainly = normpath(path)
    return plainly == (top or "/") or plainly.startswith(top + "/")


@lru_cache(maxsize=256)
def _top(root: str) -> str:
    return normpath(root).rstrip("/")


def may_be_cut(path: str) -> bool:
    """Return whether some reader may cut a name of the path short, or it leads out of its directory."""
    return _CUT.search(path) is not None or leads_out(path.replace("\\", "/"))


def may_begin(names: tuple[str, ...], top: tuple[str, ...]) -> bool:
    """Return whether names may begin with those of `top`, patterns of a shell included."""
    if names[: len(top)] == top:
        return True
    wild = next((place for place, name in enumerate(names[: len(top)]) if _WILD.search(name)), None)
    return wild is not None and names[:wild] == top[:wild]


def may_be_one_file(one: tuple[bool, tuple[str, ...]], other: tuple[bool, tuple[str, ...]]) -> bool:
    """Return whether two paths may be one file.

    Two absolute paths are compared; of others nobody knows where they begin, so that the names at the end count.
    """
    is_absolute, mine = one
    other_is, its = other
    if not mine and not its:  # "." and "/": where a tool begins
        return True
    if is_absolute and other_is:
        return _same_names(mine, its)
    if not mine or not its:  # "." may be any directory whose whole path is written
        return (other_is and not mine) or (is_absolute and not its)
    short = min(len(mine), len(its))
    return _same_names(mine[-short:], its[-short:])


def _same_names(mine: tuple[str, ...], its: tuple[str, ...]) -> bool:
    return mine == its or (len(mine) == len(its) and all(map(_same_name, mine, its)))


def _same_name(one: str, other: str) -> bool:
    """Return whether two names are one, or the first, as a short pattern of a shell, matches the other."""
    return one == other or (len(one) <= MOST_OF_A_NAME and _WILD.search(one) is not None and fnmatchcase(other, one))
