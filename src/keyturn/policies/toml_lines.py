"""Say on which line of an operator's file something is wrong.

The parser says what a file holds and not where, so the lines are found a second time by a scanner that knows only where
texts and comments begin and end. It names a line only if it found as many rules as the parser did.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, cast

from ..core.errors import UserError

_RULE = re.compile(r"\s*\[\[\s*(?:rules|\"rules\"|'rules')\s*\]\]")
_KEY = re.compile(r"(?:^|(?<=[{,.\[\s]))(?:\"([^\"]+)\"|'([^']+)'|([A-Za-z0-9_-]+))(?=\s*(?:=|\.|\]))")
_AT = re.compile(r" \(at line (\d+), column (\d+)\)$")
_NEWLINE = re.compile(r"\r?\n")
_TEXT = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"?|'[^'\n]*'?")
_BEGINS = re.compile(r"\"\"\"|'''|[\"'#]")
_MARK = re.compile(r"[.=,\n\[\]{}]")
_DIGITS = re.compile(r"[0-9][0-9_]{400}")
#: How much a policy may hold: characters, names in a row with dots between them, and brackets inside of each other.
LONGEST = 1 << 20
PARTS = 8
DEPTH = 16
TOO_DEEP = "this is nested too deeply to be read"


class Misplaced(UserError):
    """Says what is wrong in a policy: in which rule, 0 for none, inside of what, and under which key where known."""

    def __init__(self, what: str, rule: int = 0, key: str = "", inside: str = "") -> None:
        place = f"rule {rule}" if rule else "the policy"
        super().__init__(f"{place}, {inside}: {what}" if inside else f"{place}: {what}")
        self.rule = rule
        self.key = key


class Lines:
    """Knows on which lines the rules of a file and their keys stand; `text` is the file without its long texts."""

    def __init__(self, text: str, rules: int) -> None:
        self._lines = _NEWLINE.split(text)
        heads = [number for number, line in enumerate(self._lines, 1) if _RULE.match(line)]
        self._heads = heads if len(heads) == rules else []

    def of(self, rule: int, key: str) -> int | None:
        """Return the line of a key of a rule, or of a rule; of the file's own keys for rule 0; None if not known."""
        if rule and not self._heads:
            return self._key(1, len(self._lines) + 1, "rules")
        first = self._heads[rule - 1] if rule else 1
        after = [head for head in self._heads if head > first or not rule]
        last = after[0] if after else len(self._lines) + 1
        return self._key(first, last, key) or (first if rule else None)

    def _key(self, first: int, last: int, key: str) -> int | None:
        for number in range(first, last):
            found = _KEY.finditer(self._lines[number - 1])
            if key and any(key in match.groups() for match in found):
                return number
        return None


def _without_texts(text: str) -> str:
    """Return a file with its comments and texts of several lines blanked, and all its lines where they were."""
    kept, place = list[str](), 0
    while (found := _BEGINS.search(text, place)) is not None:
        mark = found[0]
        end = _end_of(text, found.start(), mark)
        kept.append(text[place : found.start()])
        piece = text[found.start() : end]
        blank = mark in ("#", '"""', "'''")
        kept.append(re.sub(r"[^\r\n]", " ", piece) if blank else piece)
        place = end
    return "".join(kept) + text[place:]


def _end_of(text: str, place: int, mark: str) -> int:
    if mark == "#":
        found = text.find("\n", place)
        return len(text) if found < 0 else found
    at = place + len(mark)
    while at < len(text):
        if text[at] == "\\" and '"' in mark:
            at += 2
        elif text.startswith(mark, at):
            at += len(mark)
            while len(mark) == 3 and at < len(text) and text[at] == mark[0]:  # a text may end in quotes of its own
                at += 1
            return at
        else:
            at += 1
    return len(text)


def text_of(source: str | PathLike[str]) -> tuple[str, str]:
    """Return the text of a policy, and the name of the file that holds it; "" where it was given as a text."""
    if isinstance(source, str) and not (source.endswith(".toml") and "\n" not in source):
        return source, ""
    try:
        return Path(source).read_text(encoding="utf-8"), str(source)
    except OSError as error:
        raise UserError(f"the policy file {str(source)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"the policy file {str(source)!r} cannot be read: it is not UTF-8") from None
    except ValueError as error:  # a name that no file can have
        raise UserError(f"the policy file {str(source)!r} cannot be read: {error}") from None


def parsed(text: str, name: str) -> tuple[dict[str, Any], Lines]:
    """Parse a file, and find its lines; what is not TOML is refused with its place."""
    plain = _checked(text, name)
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise UserError(_at(name, None, TOO_DEEP)) from None
    except ValueError as error:  # a number that no interpreter converts is a plain one
        found = _AT.search(str(error))
        what = f"this is not TOML: {_AT.sub('', str(error))}"
        raise UserError(_at(name, None if found is None else int(found[1]), what)) from None
    rules: object = data.get("rules")
    return data, Lines(plain, len(cast("list[object]", rules)) if isinstance(rules, list) else 0)


def _checked(text: str, name: str) -> str:
    """Return a file without its texts of several lines and its comments, or refuse one that is no policy by its shape.

    What the parser does with a name of many parts costs their number squared, and it calls itself for each bracket.
    """
    if len(text) > LONGEST:
        raise UserError(_at(name, None, f"a policy has {LONGEST} characters at most, and this one {len(text)}"))
    plain = _without_texts(text)
    line = parts = 1
    depth = 0
    for found in _MARK.finditer(_TEXT.sub("", plain)):
        mark = found[0]
        line += mark == "\n"
        parts = parts + 1 if mark == "." else 1
        depth += (mark in "[{") - (mark in "]}")
        if parts > PARTS:
            raise UserError(_at(name, line, f"a name has {PARTS} parts at most, with dots between them"))
        if depth > DEPTH:
            raise UserError(_at(name, line, f"brackets are {DEPTH} deep at most"))
    if _DIGITS.search(plain) is not None:
        raise UserError(_at(name, None, "a number has 400 digits at most"))
    return plain


@contextmanager
def placed(lines: Lines, name: str) -> Generator[None]:
    """Name the file and the line in what is refused."""
    try:
        yield
    except Misplaced as error:
        raise UserError(_at(name, lines.of(error.rule, error.key), str(error))) from None
    except UserError as error:
        raise UserError(_at(name, None, str(error))) from None
    except RecursionError:
        raise UserError(_at(name, None, TOO_DEEP)) from None


def _at(name: str, line: int | None, what: str) -> str:
    if line is None:
        return f"{name}: {what}" if name else what
    return f"{name}:{line}: {what}" if name else f"line {line}: {what}"
