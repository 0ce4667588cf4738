"""Search for names and for text below one directory, within limits of time and size.

A text without special characters is looked for right here. A regular expression may take for ever and cannot be
stopped while it is matched, so it runs in a process of its own, which is ended when its time is up; this file is that
process's program too, and therefore stands on the standard library alone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..functions.required import required_texts
from .globs import Glob
from .walk import DIRECTORY, Walk, read_plain

OutputMode = Literal["files_with_matches", "content", "count"]
SPECIAL = frozenset("\\.^$*+?{}[]|()")
LONGEST_PATTERN = 1000
_LINE, _BINARY = 300, 8192
_LONGEST_LINE = 20_000  # characters of one line that a regular expression is matched against


@dataclass(frozen=True)
class SearchQuery:
    """Says what to look for, where, and within which limits; without a pattern, names are looked for.

    `names` lead to the directory to begin at; `only` is the one file in it to look into. The directory with the device
    and inode `apart` is passed by.

    >>> SearchQuery("TODO").regex, SearchQuery("TODO|FIXME").regex
    (False, True)
    """

    pattern: str | None = None
    names: tuple[str, ...] = ()
    only: str | None = None
    glob: str | None = None
    mode: OutputMode = "content"
    hidden: bool = False
    ignoring: bool = True
    ignore_case: bool = False
    most: int = 200
    seconds: float = 10.0
    file_bytes: int = 16 << 20
    apart: tuple[int, int] | None = None

    @property
    def regex(self) -> bool:
        """Return whether the pattern must be matched as a regular expression."""
        return self.pattern is not None and (self.ignore_case or not SPECIAL.isdisjoint(self.pattern))


@dataclass
class Found:
    """Holds the lines of the answer, how much was skipped and why, and why the search stopped early, if it did."""

    lines: list[str] = field(default_factory=list[str])
    passed: dict[str, int] = field(default_factory=dict[str, int])
    stopped: str = ""


class SearchFailed(Exception):
    """Raised for a search that could not be made; the text says why."""


def search(root: int, query: SearchQuery) -> Found:
    """Search below an open directory, in this process or in one of its own."""
    if query.pattern is not None and (not query.pattern or len(query.pattern) > LONGEST_PATTERN):
        raise SearchFailed(f"a pattern must have 1 to {LONGEST_PATTERN} characters")
    if query.pattern is not None and "\n" in query.pattern:
        raise SearchFailed("a pattern is matched line by line, so there is no line break in it")
    return _in_a_process(root, query) if query.regex else run(root, query)


def run(root: int, query: SearchQuery) -> Found:
    """Run the search."""
    glob = None if query.glob is None else Glob(query.glob)
    matcher = None if query.pattern is None else _matcher(query)
    # Who looks for hidden names wants to see them; to look into such files must be said, since some are kept secret.
    hidden = query.hidden or (matcher is None and glob is not None and glob.hidden)
    walk = Walk(hidden, query.ignoring, time.monotonic() + query.seconds, query.apart)
    found = Found(passed=walk.passed)
    for here, name, path in _files(walk, root, query, glob):
        if matcher is None:
            found.lines.append(printable(path))
        else:
            _look_into(walk, here, name, path, (query, matcher, found))
        if len(found.lines) >= query.most:
            walk.stopped = walk.stopped or f"{query.most} results are shown"
            found.lines = found.lines[: query.most]
            break
    found.stopped = walk.stopped
    return found


def _files(walk: Walk, root: int, query: SearchQuery, glob: Glob | None) -> Iterator[tuple[int, str, str]]:
    """Yield the files to search, each with its open directory, until the time is up."""
    start = sum(len(name) + 1 for name in query.names)
    # A pattern of one name is about names when text is searched, about the directory itself when names are.
    by_name = query.pattern is not None and "/" not in (query.glob or "")
    places = walk.files(root, query.names) if query.only is None else _one_file(root, query.names, query.only)
    for prefix, here, names in places:
        for name in names:
            path = prefix + name
            if walk.late():
                return
            if glob is None or glob.matches(name if by_name else path[start:]):
                yield here, name, path


Matcher = Callable[[bytes], "Iterator[tuple[int, str]]"]


def _one_file(root: int, names: tuple[str, ...], name: str) -> Iterator[tuple[str, int, list[str]]]:
    """Return the one file that was named, whatever ignore rules there are."""
    with ExitStack() as opened:
        here = root
        for each in names:
            here = os.open(each, DIRECTORY, dir_fd=here)
            opened.callback(os.close, here)
        yield "".join(f"{each}/" for each in names), here, [name]


def _look_into(walk: Walk, here: int, name: str, path: str, search: tuple[SearchQuery, Matcher, Found]) -> None:
    query, matcher, found = search
    data = read_plain(here, name, query.file_bytes)
    if isinstance(data, str):
        walk.pass_by(data)
        return
    hits = matcher(data)
    first = next(hits, None)
    if first is None:
        return
    if b"\0" in data[:_BINARY]:
        walk.pass_by("binary")
    elif query.mode == "files_with_matches":
        found.lines.append(printable(path))
    elif query.mode == "count":
        found.lines.append(f"{printable(path)}:{1 + sum(1 for _ in hits)}")
    else:
        found.lines.append(f"{printable(path)}:{first[0]}:{first[1]}")
        for number, line in hits:
            if len(found.lines) > query.most:
                break
            found.lines.append(f"{printable(path)}:{number}:{line}")


def _matcher(query: SearchQuery) -> Matcher:
    assert query.pattern is not None
    return _regex_lines(query.pattern, query.ignore_case) if query.regex else _literal_lines(query.pattern)


def _literal_lines(text: str) -> Matcher:
    needle = text.encode()

    def lines(data: bytes) -> Iterator[tuple[int, str]]:
        for number, line in _lines_with(needle, data):
            yield number, _cut(line, line.find(text))

    return lines


def _lines_with(needle: bytes, data: bytes) -> Iterator[tuple[int, str]]:
    """Find the lines that hold a text without splitting the others."""
    at = data.find(needle)
    number, counted = 1, 0
    while at >= 0:
        number += data.count(b"\n", counted, at)
        counted = at
        end = data.find(b"\n", at + len(needle))
        start = data.rfind(b"\n", 0, at) + 1
        line = data[start:] if end < 0 else data[start:end].removesuffix(b"\r")
        yield number, line.decode(errors="replace")
        at = data.find(needle, end) if end >= 0 else -1


def _regex_lines(pattern: str, ignore_case: bool) -> Matcher:
    if pattern.startswith("(?i)"):
        pattern, ignore_case = pattern.removeprefix("(?i)"), True
    try:
        find = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    except (re.error, OverflowError, RecursionError) as error:
        raise SearchFailed(f"the pattern is not a regular expression: {error}") from None

    texts = required_texts(pattern)
    may_match = _prefilter(texts, ignore_case)
    needle = texts[0].encode() if len(texts) == 1 and not ignore_case else b""

    def lines(data: bytes) -> Iterator[tuple[int, str]]:
        for number, line in _lines_with(needle, data) if needle else _all_lines(data, may_match):
            hit = find(line, 0, _LONGEST_LINE)
            if hit is not None:
                yield number, _cut(line, hit.start())

    return lines


def _all_lines(data: bytes, may_match: Callable[[bytes], bool]) -> Iterator[tuple[int, str]]:
    if may_match(data):
        text = data.decode(errors="replace").replace("\r\n", "\n").removesuffix("\n")
        yield from enumerate(text.split("\n"), 1)


def _prefilter(texts: tuple[str, ...], ignore_case: bool) -> Callable[[bytes], bool]:
    """Return a quick test whether a file can hold a match."""
    needed = tuple(text.encode() for text in texts)
    if not needed:
        return lambda _data: True
    if not ignore_case:
        return lambda data: _holds(data, needed)
    if not all(text.isascii() for text in needed):
        return lambda _data: True
    lower = tuple(text.lower() for text in needed)
    # Beyond ASCII there are letters that match others of another length, or none of their case.
    return lambda data: not data.isascii() or _holds(data.lower(), lower)


def _holds(data: bytes, texts: tuple[bytes, ...]) -> bool:
    return any(text in data for text in texts)


def _cut(line: str, at: int) -> str:
    """Cut a long line around what was found, with marks where it is cut."""
    line = line.removesuffix("\r")
    if len(line) <= _LINE:
        return line
    start = max(0, min(at - _LINE // 3, len(line) - _LINE))
    shown = line[start : start + _LINE]
    return ("..." if start else "") + shown + ("..." if start + _LINE < len(line) else "")


def printable(path: str) -> str:
    """Escape a path for one line of an answer."""
    return path if path.isprintable() else path.encode("unicode_escape", "backslashreplace").decode()


# ------------------------------------------------------------------------------------------- in a process of its own

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from keyturn.tools.filesystem.search import main; main(int(sys.argv[2]))"
)
_REMEDY = "use a simpler pattern, or search in a smaller place"
_GRACE = 0.5  # the processor time that a search has beyond its own, once it has begun
_STARTS = 10.0  # how long its process may take besides, on a machine that is busy with others
_LIBRARIES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # without them some interpreters do not start


def _in_a_process(root: int, query: SearchQuery) -> Found:
    if not sys.executable or getattr(sys, "frozen", False):
        raise SearchFailed("regular expressions need a Python interpreter beside this program; search for plain text")
    home = str(Path(__file__).parents[3])
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, home, str(root)]
    given = json.dumps(dataclasses.asdict(query)).encode()
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            timeout=query.seconds + _STARTS,
            pass_fds=(root,),
            env={name: os.environ[name] for name in _LIBRARIES if name in os.environ},
            check=False,
        )
        if done.returncode == -signal.SIGPROF:
            raise SearchFailed(f"it took longer than {query.seconds:g} s; {_REMEDY}")
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise SearchFailed(f"it took longer than {query.seconds:g} s; {_REMEDY}") from None
    except (ValueError, OSError):
        raise SearchFailed(f"its process ended early; {_REMEDY}") from None
    if "failed" in answer:
        raise SearchFailed(answer["failed"])
    return Found(**answer)


def main(root: int) -> None:
    """Read a query and write what was found; the system ends this process if its parent is gone."""
    query = json.loads(sys.stdin.buffer.read())
    query["names"] = tuple(query["names"])
    made = SearchQuery(**query)
    signal.setitimer(signal.ITIMER_PROF, made.seconds + _GRACE)  # nothing else ends an expression that backtracks
    try:
        answer = dataclasses.asdict(run(root, made))
    except (SearchFailed, ValueError, OSError) as error:
        answer = {"failed": str(error)}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)
