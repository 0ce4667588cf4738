"""Parse unified diffs, as `diff -u` and git write them, of one file or many, into operations.

The lines of a hunk mean the same as in V4A, so that an operation's diff holds them as they came. What such a diff can
say and no operation does (links, modes, binary content) is refused, never left out. No file is touched here.
"""

from __future__ import annotations

import re
from typing import Literal

from .editor import ApplyPatchOperation
from .hunks import InvalidPatch

_RANGE = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NOTHING = "/dev/null"
_PLAIN = ("index ", "similarity index ", "dissimilarity index ", "Index: ", "====", "diff ")
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def is_unified(patch: str) -> bool:
    """Return whether a text looks like a unified diff.

    >>> is_unified("--- a/x\\n+++ b/x\\n@@ -1 +1 @@\\n-a\\n+b\\n")
    True
    """
    return re.search(r"^(?:diff --git |--- .*\n\+\+\+ )", patch, re.MULTILINE) is not None


def operations_of(patch: str) -> list[ApplyPatchOperation]:
    """Return the operations that a unified diff asks for.

    >>> [one.type for one in operations_of("--- /dev/null\\n+++ b/x\\n@@ -0,0 +1 @@\\n+a\\n")]
    ['create_file']
    """
    reader = _Reader(patch.split("\n"))
    found: list[ApplyPatchOperation] = []
    while (operation := reader.next()) is not None:
        found.append(operation)
    if not found:
        raise InvalidPatch("The diff names no file: each begins with '--- <path>' and '+++ <path>'.")
    return found


class _Head:
    """Holds the header above the hunks of one file."""

    def __init__(self) -> None:
        self.old: str | None = None
        self.new: str | None = None
        self.moved: list[str | None] = [None, None]
        self.mode: Literal["new", "deleted"] | None = None
        self.named: tuple[str, str] | None = None

    @property
    def empty(self) -> bool:
        return self.old is None and self.new is None and self.named is None


class _Reader:
    """Parses a unified diff from top to bottom."""

    def __init__(self, lines: list[str]) -> None:
        if lines[-1] == "":
            lines.pop()
        self.lines, self.at = lines, 0

    def next(self) -> ApplyPatchOperation | None:
        head = self._head()
        if head.empty:
            return None
        hunks: list[str] = []
        while self.at < len(self.lines) and self.lines[self.at].startswith("@@"):
            hunks += self._hunk()
        return _operation(head, hunks)

    def _head(self) -> _Head:
        head = _Head()
        while self.at < len(self.lines):
            line = self.lines[self.at].removesuffix("\r")
            if line.startswith("@@"):
                if head.new is None:
                    raise InvalidPatch(
                        f"Line {self.at + 1} of the diff: a hunk comes without '--- ' and '+++ ' above it."
                    )
                break
            if line.startswith("diff --git ") and not head.empty:
                break  # a file without hunks: it was only moved, or is empty
            if line.rstrip() == "--" and self.at >= len(self.lines) - 2:
                self.at = len(self.lines)  # what git signs a patch with: its version
                break
            self.at += 1
            self._take(head, line)
            if line.startswith("+++ "):
                break
        return head

    def _take(self, head: _Head, line: str) -> None:
        if line.startswith("diff --git "):
            head.named = _names(line[len("diff --git ") :])
        elif line.startswith("--- "):
            head.old = _path(line[4:], "")
        elif line.startswith("+++ "):
            head.new = _path(line[4:], "")
            if head.old is None:
                raise InvalidPatch(f"Line {self.at} of the diff: '+++ ' comes without '--- ' above it.")
        elif line.startswith(("rename from ", "rename to ")):
            _, which, name = line.split(" ", 2)
            head.moved[which == "to"] = _path(name, "")
        elif line.startswith(("new file mode ", "deleted file mode ")):
            kind, *_, mode = line.split(" ")
            if kind == "new" and mode != "100644":
                raise InvalidPatch(f"The diff makes a file of mode {mode}; only plain files (100644) can be made.")
            head.mode = "new" if kind == "new" else "deleted"
        elif line.startswith(("old mode ", "new mode ")):
            raise InvalidPatch("The diff changes a file's mode, which a patch cannot do here; leave these lines out.")
        elif line.startswith(("GIT binary patch", "Binary files ", "copy from ", "copy to ")):
            raise InvalidPatch(f"The diff holds {line.split(' ', 2)[:2]!r}, which a patch cannot do here: text only.")
        elif line.strip() and not line.startswith(_PLAIN) and not head.empty:
            raise InvalidPatch(f"Line {self.at} of the diff is not one of a unified diff.")

    def _hunk(self) -> list[str]:
        """Parse a hunk's lines by their count: nothing else tells a removed line '-- x' from the next header."""
        start = self.at
        ranged = _RANGE.match(self.lines[start])
        if ranged is None:
            raise InvalidPatch(f"Line {start + 1} of the diff is not '@@ -<line>,<count> +<line>,<count> @@'.")
        old, new = (1 if count is None else int(count[:9]) for count in ranged.groups())
        self.at += 1
        while old > 0 or new > 0 or self._is_mark():
            sign = self.lines[self.at][:1] if self.at < len(self.lines) else None
            if sign not in ("", " ", "-", "+", "\r", "\\"):
                raise _miscounted(start)
            old -= sign not in ("+", "\\")
            new -= sign not in ("-", "\\")
            self.at += 1
        if old < 0 or new < 0 or self._goes_on():
            raise _miscounted(start)
        return self.lines[start : self.at]

    def _is_mark(self) -> bool:
        return self.at < len(self.lines) and self.lines[self.at].startswith("\\ ")

    def _goes_on(self) -> bool:
        """Return whether a line of a hunk follows that was not counted."""
        line = self.lines[self.at] if self.at < len(self.lines) else ""
        return line[:1] in (" ", "-", "+") and bool(line.strip()) and not line.startswith(("--- ", "-- "))


def _miscounted(start: int) -> InvalidPatch:
    return InvalidPatch(
        f"The hunk at line {start + 1} of the diff has other numbers of lines than its '@@' says. "
        "Count them again, or send the patch in the '*** Begin Patch' form, which needs no counts."
    )


def _operation(head: _Head, hunks: list[str]) -> ApplyPatchOperation:
    old, new = _both_names(head)
    if _NOTHING in (old, new) and head.moved != [None, None]:
        raise InvalidPatch("The diff moves a file that it also makes or deletes.")
    if old == _NOTHING:
        rows = [line for line in hunks if not line.startswith("@@")]
        if any(line[:1] not in ("+", "\\") for line in rows):
            raise InvalidPatch(f"The diff makes {new!r}, but not all of its lines begin with '+'.")
        ended = bool(rows) and not rows[-1].startswith("\\")
        text = "\n".join(line for line in rows if line.startswith("+"))
        return ApplyPatchOperation("create_file", new, f"{text}\n" if ended else text)
    if new == _NOTHING:
        return ApplyPatchOperation("delete_file", old, "".join(f"{line}\n" for line in hunks) or None)
    if old == new and not hunks:
        raise InvalidPatch(f"The diff changes nothing in {old!r}.")
    return ApplyPatchOperation(
        "update_file", old, "".join(f"{line}\n" for line in hunks), move_to=new if new != old else None
    )


def _both_names(head: _Head) -> tuple[str, str]:
    if head.old is not None and head.new is not None:
        old, new = _without_prefixes(head.old, head.new)
    elif head.moved[0] is not None and head.moved[1] is not None:
        old, new = head.moved[0], head.moved[1]
    elif head.named is not None and head.mode is not None:
        old, new = head.named
        old, new = (_NOTHING, new) if head.mode == "new" else (old, _NOTHING)
    else:
        raise InvalidPatch(
            "The diff names a file without saying what becomes of it: '--- ' and '+++ ' lines are missing."
        )
    if old == new == _NOTHING:
        raise InvalidPatch("The diff names no file: both sides are /dev/null.")
    return old, new


def _without_prefixes(old: str, new: str) -> tuple[str, str]:
    """Strip git's a/ and b/ from both names; where only one has its own, it is a directory of that name."""
    if old in (_NOTHING, f"a/{old[2:]}") and new in (_NOTHING, f"b/{new[2:]}"):
        old, new = (each if each == _NOTHING else each[2:] for each in (old, new))
    return old, new


def _path(text: str, prefix: str) -> str:
    """Parse a name in a header: quoted by git, followed by a time, behind a/ or b/."""
    text = text.rstrip("\r")
    if text.startswith('"'):
        name = _unquoted(text)
    else:
        name = text.split("\t", 1)[0].rstrip(" ")
    return name if name == _NOTHING else name.removeprefix(prefix)


def _names(text: str) -> tuple[str, str]:
    """Parse both names of a "diff --git" line, which can be told apart only where they are the same."""
    if text.startswith('"'):
        return _path(text, "a/"), _path(text[text.index('" ') + 2 :] if '" ' in text else text, "b/")
    half = len(text) // 2
    return _path(text[:half], "a/"), _path(text[half + 1 :], "b/")


def _unquoted(text: str) -> str:
    made = bytearray()
    place = 1
    while place < len(text) and text[place] != '"':
        if text[place] != "\\":
            made += text[place].encode("utf-8", "surrogatepass")
            place += 1
            continue
        octal = re.match(r"[0-3][0-7]{2}", text[place + 1 :])
        if octal is not None:
            made.append(int(octal[0], 8))
        elif text[place + 1 : place + 2] in _ESCAPES:
            made.append(_ESCAPES[text[place + 1]])
        else:
            raise InvalidPatch(f"The name {text!r} in the diff is not quoted as git does it.")
        place += 1 + (3 if octal is not None else 1)
    try:
        return made.decode()
    except UnicodeDecodeError:
        raise InvalidPatch(f"The name {text!r} in the diff is not UTF-8.") from None
