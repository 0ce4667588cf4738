"""Several backends as one: each prefix of a path leads to one of them, and all else to the default."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, cast

from ...core.errors import UserError
from ...core.settable import Sealed
from ..filesystem.globs import BadGlob, below
from ..filesystem.jail import Parts
from ..filesystem.numbered_lines import LINES
from ..filesystem.problems import FileMissing, PathRefused
from ..filesystem.search import Found, SearchQuery
from ..filesystem.staging import Change, File
from ..filesystem.walk import TIME_UP
from ..filesystem.workspace import DirectoryEntry
from .backend import Backend


class CompositeBackend(Backend, Sealed):
    """Routes each path to a backend by its prefix, the longest one that fits; `execute` is the default's.

    >>> from keyturn.tools.backends.state import StateBackend
    >>> memories = StateBackend({"/user.md": "likes tea"})
    >>> backend = CompositeBackend(StateBackend(), {"/memories/": memories})
    >>> backend.read("/memories/user.md").text
    'likes tea'
    """

    def __init__(self, default: Backend, routes: Mapping[str, Backend]) -> None:
        for backend in (default, *routes.values()):
            if not isinstance(backend, Backend):
                raise UserError(f"a CompositeBackend is made of backends, not of a {type(backend).__name__}")
        self.default = default
        self.routes: dict[Parts, Backend] = {}
        for prefix, backend in routes.items():
            parts = default.parts(prefix, directory=True)
            if not parts or parts in self.routes:
                raise UserError(f"routes[{prefix!r}]: each prefix is a directory of its own, such as '/memories/'")
            self.routes[parts] = backend
        self._longest_first = sorted(self.routes, key=len, reverse=True)
        self.in_memory = all(backend.in_memory for backend in (default, *self.routes.values()))
        self.goes_along = any(backend.goes_along for backend in (default, *self.routes.values()))
        self.shell = default.shell

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self.saved() == other.saved()

    __hash__ = object.__hash__

    @property
    def root(self) -> str:
        """Return where the files of each prefix are."""
        routes = [f"/{'/'.join(prefix)}/ in {backend.root}" for prefix, backend in sorted(self.routes.items())]
        return "; ".join([self.default.root, *routes])

    def saved(self) -> Any:
        """Return what each backend saves."""
        parts = {"/".join(prefix): backend.saved() for prefix, backend in self.routes.items()}
        return {"parts": {"": self.default.saved(), **parts}}

    def restored(self, data: Any) -> Backend:
        """Return the backend of one run, each part from what it saved."""
        names = {"", *("/".join(prefix) for prefix in self.routes)}
        parts: Any = dict.fromkeys(names) if data is None else cast("dict[str, Any]", data).get("parts")
        if not isinstance(parts, dict) or cast("dict[str, Any]", parts).keys() != names:
            raise UserError("the files of this run are in other places than this CompositeBackend has")
        known = cast("dict[str, Any]", parts)
        routes = {
            f"/{'/'.join(prefix)}": backend.restored(known["/".join(prefix)]) for prefix, backend in self.routes.items()
        }
        return CompositeBackend(self.default.restored(known[""]), routes)

    def changeable(self, path: str) -> Parts:
        """Return the names of a path to a file that may be changed, as far as the path itself can say."""
        prefix, backend, rest = self._at(self.parts(path))
        return (*prefix, *backend.changeable("/".join(rest)))

    def find(self, parts: Parts) -> bytes | None:
        """Return the bytes of a file, None where there is no such file."""
        _, backend, rest = self._at(parts)
        return backend.find(rest)

    def put(self, parts: Parts, data: bytes | None) -> None:
        """Put a file in place, or remove it where `data` is None."""
        _, backend, rest = self._at(parts)
        backend.put(rest, data)

    def names(self) -> Mapping[str, int]:
        """Return the path of every file, and its size."""
        found = {name: size for name, size in self.default.names().items() if self._at(tuple(name.split("/")))[0] == ()}
        for prefix, backend in self.routes.items():
            found |= {f"{'/'.join(prefix)}/{name}": size for name, size in backend.names().items()}
        return found

    def look(self, path: str) -> File | None:
        """Read a file as it is now, None where there is none."""
        parts = self.parts(path)
        _, backend, rest = self._at(parts)
        found = backend.look("/".join(rest))
        return None if found is None else replace(found, path="/".join(parts))

    def fits(self, path: str) -> None:
        """Refuse a path where a file is in the place of a directory, or a directory in that of the file."""
        _, backend, rest = self._at(self.parts(path))
        if not rest:
            raise PathRefused(f"The path {path!r} is refused: it is a directory.")
        backend.fits("/".join(rest))

    def check(self, change: Change) -> None:
        """Refuse a change that is never made, whatever the files hold."""
        backend, inner = self._inner(change)
        backend.check(inner)

    def apply(self, changes: Sequence[Change]) -> None:
        """Make these changes, each where its path leads."""
        with self.alone():
            for change in changes:
                backend, inner = self._inner(change)
                backend.apply([inner])

    def lines(self, path: str, offset: int = 0, limit: int = LINES) -> str:
        """Return a part of a text file as numbered lines."""
        _, backend, rest = self._at(self.parts(path))
        return backend.lines("/".join(rest), offset, limit)

    def entries(self, path: str = ".") -> list[DirectoryEntry]:
        """List a directory, and in it the prefixes that begin there."""
        parts = self.parts(path, directory=True)
        prefix, backend, rest = self._at(parts)
        mounted = {each[len(parts)] for each in self.routes if len(each) > len(parts) and each[: len(parts)] == parts}
        try:
            found = backend.entries("/".join(rest) or ".")
        except FileMissing:
            if not mounted and parts != prefix:
                raise
            found = []
        own = [entry for entry in found if entry.name not in mounted]
        return sorted([*own, *(DirectoryEntry(name, "directory", 0) for name in mounted)])

    def search(self, path: str, query: SearchQuery) -> Found:
        """Look for names or for text, in every backend below a directory."""
        until = time.monotonic() + query.seconds
        parts = self.parts(path, directory=True)
        prefix, backend, rest = self._at(parts)
        deeper = self._below(parts)
        try:
            found = self._shown(parts, _under(prefix, backend.search("/".join(rest) or ".", query)))
        except FileMissing:
            if not deeper:
                raise
            found = Found()
        places = [(each, glob) for each in deeper for glob in _globs_below(each[len(parts) :], query)]
        for place, glob in places:
            left = until - time.monotonic()
            if left <= 0:  # of one search, which a pattern may make many
                found.stopped = found.stopped or TIME_UP
                break
            there = self.routes[place].search(".", replace(query, glob=glob, seconds=left))
            _add(found, self._shown(place, _under(place, there)), query.most)
        return found

    def _below(self, parts: Parts) -> list[Parts]:
        """Return the prefixes below a directory."""
        return [each for each in self.routes if len(each) > len(parts) and each[: len(parts)] == parts]

    def _shown(self, parts: Parts, found: Found) -> Found:
        """Return what was found below a directory without what a prefix there hides."""
        hidden = tuple(f"{'/'.join(each)}/" for each in self._below(parts))
        if hidden:
            found.lines = [line for line in found.lines if not line.startswith(hidden)]
        return found

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Lock all of its files against every other change."""
        with ExitStack() as stack:
            # In one order for all, or two that are made of the same places would wait for each other for ever.
            for backend in sorted(self.places(), key=lambda each: (each.root, id(each))):
                stack.enter_context(backend.alone())
            yield

    def places(self) -> list[Backend]:
        """Return the backends in which its files really are."""
        return [place for backend in (self.default, *self.routes.values()) for place in backend.places()]

    def _at(self, parts: Parts) -> tuple[Parts, Backend, Parts]:
        for prefix in self._longest_first:
            if parts[: len(prefix)] == prefix:
                return prefix, self.routes[prefix], parts[len(prefix) :]
        return (), self.default, parts

    def _inner(self, change: Change) -> tuple[Backend, Change]:
        parts = self.parts(change.path)
        _, backend, rest = self._at(parts)
        if not rest:
            raise PathRefused(f"The path {change.path!r} is refused: it is a directory.")
        path = "/".join(rest)
        before = None if change.before is None else replace(change.before, path=path)
        return backend, replace(change, path=path, before=before)


def _under(prefix: Parts, found: Found) -> Found:
    """Return results with the prefix of their backend in front of each path."""
    start = "".join(f"{name}/" for name in prefix)
    return Found([f"{start}{line}" for line in found.lines], dict(found.passed), found.stopped)


def _globs_below(prefix: Parts, query: SearchQuery) -> list[str | None]:
    """Return what a pattern means below a prefix: None for everything, nothing where nothing there can fit."""
    glob = query.glob
    if glob is None:
        return [None]
    if query.pattern is not None and "/" not in glob:  # it is of names at any depth
        return [glob]
    try:
        return list(below(glob, prefix))
    except BadGlob:  # the search itself tells what is wrong with it
        return [glob]


def _add(found: Found, more: Found, most: int) -> None:
    found.lines = list(dict.fromkeys([*found.lines, *more.lines]))[:most]
    for why, count in more.passed.items():
        found.passed[why] = found.passed.get(why, 0) + count
    found.stopped = found.stopped or more.stopped
