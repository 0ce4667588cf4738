"""Parse the V4A notation of patches: the diff of one file, and the envelope around several.

Hunks begin with "@@", which may name a line above them; " ", "-" and "+" begin the lines that stay, go and come.
Reading only: where a hunk belongs is decided in `hunks`, and no file is touched here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, cast

from ...core.errors import UserError
from .editor import ApplyPatchOperation
from .hunks import Hunk, HunkRow, InvalidPatch, apply_hunks

ApplyDiffMode = Literal["default", "create"]

BEGIN = "*** Begin Patch"
END = "*** End Patch"
END_OF_FILE = "*** End of File"
_RANGE = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.*)")
_MOVE = "*** Move to: "


def apply_diff(input: str, diff: str, mode: ApplyDiffMode = "default") -> str:
    """Apply a V4A diff to a text; with `mode="create"`, return the text that a diff of new lines stands for.

    Raises `InvalidPatch`, a `ValueError`, where the diff cannot be read or does not fit. Hunks in the notation of
    unified diffs are taken too, and their line numbers are used to tell equal places apart.

    >>> apply_diff("def double(n):\\n    return n\\n", "@@ def double(n):\\n-    return n\\n+    return 2 * n\\n")
    'def double(n):\\n    return 2 * n\\n'
    >>> apply_diff("", "+print('hello')", mode="create")
    "print('hello')"
    """
    if mode == "create":
        return created(diff)
    if mode != "default":
        raise UserError(f'the mode of apply_diff is "default" or "create", not {mode!r}')
    return apply_hunks(input, hunks_of(diff))


def created(diff: str) -> str:
    """Return the text of a new file: every line of its diff begins with "+"."""
    made: list[str] = []
    for number, line in enumerate(_body(diff), 1):
        if line.startswith("+"):
            made.append(line[1:])
        elif not line.strip():
            raise InvalidPatch(f"Line {number} of the diff of a new file is empty; an empty line is written '+'.")
        elif not _RANGE.match(line) and not line.startswith("\\ "):
            raise InvalidPatch(
                f"Line {number} of the diff of a new file begins with {line[0]!r}; every line of it begins with '+'."
            )
    return "\n".join(made).removesuffix("\r")


def hunks_of(diff: str) -> list[Hunk]:
    """Parse the hunks of one file's diff."""
    reader = _Reader()
    for number, line in enumerate(_body(diff), 1):
        reader.take(number, line)
    return reader.finished()


def _body(diff: str) -> list[str]:
    """Return the lines that say what changes: not the end of an envelope, nor the names above a unified diff."""
    lines = diff.split("\n")
    if lines[-1] == "":
        lines.pop()
    for place, line in enumerate(lines):
        if line.rstrip() == END:
            if any(rest.strip() for rest in lines[place + 1 :]):
                raise InvalidPatch(f"Something follows {END!r}.")
            lines = lines[:place]
            break
    if len(lines) > 2 and lines[0].startswith("--- ") and lines[1].startswith("+++ ") and _RANGE.match(lines[2]):
        lines = lines[2:]
    return lines


class _Reader:
    """Parses lines of a diff into hunks."""

    def __init__(self) -> None:
        self.hunks: list[Hunk] = []
        self._rows: list[HunkRow] = []
        self._anchors: list[str] = []
        self._line: int | None = None
        self._ended: set[str] = set()
        self._opened = False

    def take(self, number: int, line: str) -> None:
        bare = line.removesuffix("\r")
        if bare.rstrip() == END_OF_FILE:
            self._close(at_end=True)
        elif bare.startswith("@@"):
            self._head(number, bare)
        elif bare.startswith("\\ "):
            self._no_newline(number)
        elif bare[:1] in ("", " ", "-", "+"):
            # An empty line is one of the file's own: its space was lost on the way.
            self._rows.append(HunkRow(cast("Literal[' ', '-', '+']", bare[:1] or " "), bare[1:], line.endswith("\r")))
        else:
            raise InvalidPatch(
                f"Line {number} of the diff begins with {bare[0]!r}; it must begin with ' ', '-', '+' or '@@'. "
                "The diff of one file has no '*** ' lines but '*** End of File'."
            )

    def finished(self) -> list[Hunk]:
        if self._rows or self._opened:
            self._close()
        return self.hunks

    def _head(self, number: int, line: str) -> None:
        if self._rows:
            self._close()
        self._opened = True
        ranged = _RANGE.match(line)
        if ranged is not None:
            self._line = int(ranged[1][:9])
        elif line.startswith("@@ "):
            if line[3:].strip():
                self._anchors.append(line[3:])
        elif line != "@@":
            raise InvalidPatch(
                f"Line {number} of the diff: after '@@' comes a space and a line of the file, or nothing."
            )

    def _no_newline(self, number: int) -> None:
        """Note that the line above ends its text without a newline."""
        if not self._rows:
            raise InvalidPatch(
                f"Line {number} of the diff says that there is no newline after a line, but there is none."
            )
        last = self._rows[-1]
        self._rows[-1] = last._replace(cr=None)
        self._ended |= {"-", "+"} if last.sign == " " else {last.sign}

    def _close(self, at_end: bool = False) -> None:
        if not self._rows:
            raise InvalidPatch(f"Hunk {len(self.hunks) + 1} is empty: nothing follows its '@@'.")
        # The side that ends with a newline has one more line, which nobody writes down: the empty one after it.
        if self._ended == {"+"}:
            self._rows.append(HunkRow("-", "", None))
        elif self._ended == {"-"}:
            self._rows.append(HunkRow("+", "", None))
        near = self._line
        if near and any(row.sign != "+" for row in self._rows):
            near -= 1  # only lines that come alone go after the line that is named
        self.hunks.append(Hunk(tuple(self._rows), tuple(self._anchors), near, at_end or bool(self._ended)))
        self._rows = []
        self._anchors = []
        self._line = None
        self._ended = set()
        self._opened = False


def operations_of(patch: str) -> list[ApplyPatchOperation]:
    """Return the operations that a patch in an envelope asks for, file by file."""
    lines = patch.strip("\r\n").split("\n")
    if lines[0].rstrip() != BEGIN or lines[-1].rstrip() != END:
        raise InvalidPatch(
            f"A patch begins with {BEGIN!r} and ends with {END!r}; this one is cut off or has no envelope."
        )
    sections = list(_sections(lines[1:-1]))
    if not sections:
        raise InvalidPatch("The patch names no file: after '*** Begin Patch' comes '*** Update File: <path>', say.")
    return [_operation(head, body) for head, body in sections]


def _sections(lines: list[str]) -> Iterator[tuple[re.Match[str], list[str]]]:
    head: re.Match[str] | None = None
    body: list[str] = []
    for number, line in enumerate(lines, 2):
        found = _FILE.fullmatch(line.rstrip())
        if found is None and head is not None:
            body.append(line)
        elif found is None and line.strip():
            raise InvalidPatch(f"Line {number} of the patch comes before the first '*** ... File: ' line.")
        elif found is not None:
            if head is not None:
                yield head, body
            head, body = found, []
    if head is not None:
        yield head, body


def _operation(head: re.Match[str], body: list[str]) -> ApplyPatchOperation:
    kind, path = head[1], head[2].strip()
    move_to = None
    if kind == "Update" and body and body[0].startswith(_MOVE):
        move_to, body = body[0][len(_MOVE) :].strip(), body[1:]
    if kind == "Delete":
        if any(line.strip() for line in body):
            raise InvalidPatch(f"'*** Delete File: {path}' is followed by lines, but a file is deleted without any.")
        return ApplyPatchOperation("delete_file", path)
    while body and not body[-1].strip():
        body.pop()  # the space between two files
    if not body and kind == "Update" and move_to is None:
        raise InvalidPatch(f"'*** Update File: {path}' is followed by no change.")
    diff = "".join(f"{line}\n" for line in body)
    return ApplyPatchOperation("create_file" if kind == "Add" else "update_file", path, diff, move_to=move_to)
