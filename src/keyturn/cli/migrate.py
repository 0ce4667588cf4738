"""The command `keyturn migrate PATH` rewrites imports of three SDKs, and lists what differs on purpose.

They are openai-agents, Pydantic AI and pydantic-deep.

It shows the changes first, and writes them with `--write`, or after a yes at a terminal. What it lists is printed to
stdout like the changes; what could not be read or written goes to stderr, and the other files are done all the same.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..adapters.migrating.files import NotWritten, Source, own_module, programs, read, write
from ..render.escape import escape
from .printing import print_labelled, print_row

_NAME = "keyturn migrate"
_NO_PACKAGE = "this command needs the package 'libcst': pip install 'keyturn[migrate]'"
_MANIFESTS = ("pyproject.toml", "setup.cfg", "setup.py", "Pipfile", "requirements*.txt", "requirements*.in")
_PACKAGE = re.compile(r"\b(openai[-_]agents|pydantic[-_]ai(?:[-_]slim)?|pydantic[-_]deep)\b")
_IMPORTS = re.compile(rb"^[ \t\f]*(?:from|import)[ \t\f]+agents\b", re.MULTILINE)


class ChangedSource(NamedTuple):
    """Holds a file that is to be changed."""

    source: Source
    text: bytes


class Findings:
    """Collects what was found in all files: changes, notes by sentence, and trouble."""

    def __init__(self) -> None:
        self.changes: list[ChangedSource] = []
        self.notes: dict[str, list[str]] = {}
        self.trouble = 0

    def note(self, text: str, place: str) -> None:
        """Add a place to a sentence."""
        self.notes.setdefault(text, []).append(place)

    def refuse(self, path: Path, why: str) -> None:
        """Say of a file why nothing is done with it."""
        self.trouble += 1
        print_labelled(_NAME, f"{path}: {why}")


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a program, or a folder of programs")
    parser.add_argument("--write", action="store_true", help="write the changes")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something is to be changed")


def run(arguments: argparse.Namespace) -> int:
    """Show what would change, and write it if told to; return 2 where a file could not be read or written."""
    if arguments.check and arguments.write:
        print_labelled(_NAME, "--check writes nothing: leave out --write")
        return 2
    found = Findings()
    try:
        for path in arguments.paths:
            _look_at(path, found)
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        print_labelled(_NAME, _NO_PACKAGE)
        return 2
    for change in found.changes:
        _show(change)
    _tell(found)
    if arguments.write or (not arguments.check and found.changes and _agreed(len(found.changes))):
        _write(found)
    if found.trouble:
        return 2
    return 1 if arguments.check and found.changes else 0


def _look_at(path: Path, found: Findings) -> None:
    if not path.exists():
        found.refuse(path, "there is no such file or folder")
        return
    root = path.resolve() if path.is_symlink() else path
    for each in programs(root):
        try:
            _look_into(each, root, found)
        except OSError as error:
            found.refuse(each, f"{error.strerror}")
    for manifest in _manifests(root):
        for number, line in enumerate(manifest.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if named := _PACKAGE.search(line):
                text = f"the requirement {named[1].replace('_', '-')} becomes keyturn; change it by hand"
                found.note(text, f"{manifest}:{number}")


def _manifests(root: Path) -> Iterator[Path]:
    if root.is_dir():
        for pattern in _MANIFESTS:
            yield from sorted(path for path in root.glob(pattern) if path.is_file() and not path.is_symlink())


def _look_into(path: Path, root: Path, found: Findings) -> None:
    from ..adapters.migrating.deferred_imports import rewrite_deferred, touches
    from ..adapters.migrating.imports import Unreadable

    source = read(path)
    text, notes = source.text, list[Any]()
    try:
        if b"agents" in text:
            text, notes = _agents(source, root, found)
        if touches(text):
            text, more = rewrite_deferred(text)
            notes = sorted({*notes, *more})
    except Unreadable as error:
        found.refuse(path, f"not touched: {error}")
        return
    for note in notes:
        found.note(note.text, f"{path}:{note.line}")
    if text != source.text:
        found.changes.append(ChangedSource(source, text))


def _agents(source: Source, root: Path, found: Findings) -> tuple[bytes, list[Any]]:
    """Return a program with its imports of openai-agents rewritten, and the notes on it."""
    from ..adapters.migrating.differences import differences
    from ..adapters.migrating.imports import rewrite

    own = own_module(source.path.absolute(), root.absolute())
    if own is not None:
        if _IMPORTS.search(source.text):
            found.note(f"not touched: `agents` is this program's own module, {own}", str(source.path))
        return source.text, []
    made = rewrite(source.text, exports=source.path.name == "__init__.py")
    return made.text, differences(made.module, made.imported) if made.imported else []


def _show(change: ChangedSource) -> None:
    name = str(change.source.path)
    before, after = (_lines(text) for text in (change.source.text, change.text))
    for line in difflib.unified_diff(before, after, name, name, lineterm=""):
        print(escape(line, keep="\n\t"))


def _lines(text: bytes) -> list[str]:
    return re.split(r"\r\n|\n|\r", text.decode("utf-8", "replace"))


def _tell(found: Findings) -> None:
    if found.notes:
        print("\nTo look at:" if found.changes else "To look at:")
    for text, places in found.notes.items():
        print_row(f"- {escape(text, keep='')}", sys.stdout)
        for place in places:
            print_row(f"    {escape(place, keep='')}", sys.stdout)
    if not found.changes:
        print("Nothing to change.")


def _agreed(count: int) -> bool:
    """Ask at a terminal whether to write; anything but a yes is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(f"{count} files would change; --write writes them.")
        return False
    try:
        return input(f"Write {count} files? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _write(found: Findings) -> None:
    written = 0
    for change in found.changes:
        try:
            write(change.source, change.text)
            written += 1
        except NotWritten as error:
            found.refuse(change.source.path, f"not written: {error}")
        except OSError as error:
            found.refuse(change.source.path, f"not written: {error.strerror}")
    print(f"{written} files written.")
