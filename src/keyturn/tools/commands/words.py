"""Parse words as a shell does: quotes, variables, substitutions, patterns, one character after another.

Where a word begins and what it becomes; what commands are made of words is in `reading.py`. What is not
known here stops the reading: nothing is guessed. The grammar is that of sh and bash.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

ENDS_WORD = frozenset(" \t\n;&|()<>")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\}|[@*#?$!\-0-9])", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*")


class Unclear(Exception):
    """Raised where the parser meets what it does not know."""


@dataclass(frozen=True)
class ShellWord:
    """Holds one word as it was written, and what it becomes, None where the shell computes that.

    `plain` says that no shell could read it otherwise: letters and quotes alone.
    """

    raw: str
    text: str | None
    plain: bool


@dataclass
class Parts:
    """Collects a word while it is parsed."""

    text: list[str] = field(default_factory=list[str])
    computed: bool = False
    plain: bool = True
    patterns: bool = False
    braces: bool = False

    def literal(self, text: str, inside: str = "'") -> None:
        """Add a quoted text, which is taken as it stands."""
        self.text.append(text)
        if not (text.isascii() and text.isprintable()) or (inside == '"' and text in ("!", "\\")):
            self.plain = False


class WordReader(abc.ABC):
    """Parses a line from left to right.

    `note(what, text)` is told of everything that is more than a word.
    """

    def __init__(self, line: str, note: Callable[[str, str], None], depth: int) -> None:
        self.line = line
        self.at = 0
        self.depth: int = depth
        self.note = note

    @abc.abstractmethod
    def commands(self, closing: str) -> None:
        """Parse commands up to `closing`, or to the end of the line."""

    @abc.abstractmethod
    def inner(self, line: str) -> WordReader:
        """Make a reader of a line within this one, by the same rules."""

    def word(self) -> ShellWord:
        """Parse one word, up to a blank or an operator."""
        start, parts = self.at, Parts()
        while self.at < len(self.line):
            char = self.line[self.at]
            if char in ENDS_WORD:
                if not self.line.startswith(("<(", ">("), self.at):
                    break
                self.substitution(2, self.at, parts)
                continue
            plain = _PLAIN.match(self.line, self.at)
            if plain is not None:
                parts.text.append(plain.group())
                self.at = plain.end()
            else:
                self.special(char, parts, start)
        raw = self.line[start : self.at]
        if raw in ("{}", "["):  # what `find` replaces, and a program: no shell makes anything else of them
            parts.computed = parts.patterns = False
        elif raw.startswith("{") and raw != "{":
            parts.computed = True
        if parts.braces and parts.computed:
            self.note("braces", raw)
        if parts.patterns:
            self.note("patterns", raw)
        return ShellWord(raw, None if parts.computed else "".join(parts.text), parts.plain)

    def special(self, char: str, parts: Parts, start: int) -> None:
        """Parse one character of a word that has a meaning of its own, or may have."""
        if char == "'":
            text = self.take(self.closing("'", self.at + 1), skip=1)
            self.at += 1
            parts.literal(text)
            return
        if char == '"':
            self.at += 1
            self.double(parts)
            return
        if char == "$":
            self.dollar(parts, quoted=False)
            return
        if char == "`":
            self.backquoted(parts)
            return
        parts.plain = False
        self.at += 1
        if char == "\\":
            self.goes_on_within()
            parts.text.append(self.line[self.at])
            self.at += 1
            return
        parts.text.append(char)
        if char in "*?[":
            parts.computed = parts.patterns = True
        elif char in "{}":
            parts.braces = True
            parts.computed = parts.computed or self.at - 1 > start
        elif char == "~" and (self.at - 1 == start or self.line[self.at - 2] in "=:"):
            parts.computed = True
            self.note("variables", "~")
        elif char == "=" and self.at - 1 == start:
            parts.computed = True  # in zsh, the path of a program

    def double(self, parts: Parts) -> None:
        """Parse the inside of double quotes."""
        while True:
            char = self.line[self.at : self.at + 1]
            if not char:
                self.stop('a " that is never closed')
            if char == '"':
                self.at += 1
                return
            if char == "$":
                self.dollar(parts, quoted=True)
            elif char == "`":
                self.backquoted(parts)
            else:
                self.at += 1
                if char == "\\" and self.line[self.at : self.at + 1] in tuple('$`"\\\n'):
                    self.goes_on_within()
                    parts.plain = False
                    char = self.line[self.at]
                    self.at += 1
                parts.literal(char, inside='"')

    def dollar(self, parts: Parts, *, quoted: bool) -> None:
        """Parse a variable, or an expansion that is computed."""
        start = self.at
        if self.line.startswith("$((", start):
            self.stop("arithmetic")
        if self.line.startswith("$(", start):
            self.substitution(2, start, parts)
            return
        variable = _VARIABLE.match(self.line, start)
        if variable is not None:
            self.at = variable.end()
            parts.computed, parts.plain = True, False
            self.note("variables", variable.group())
            return
        if self.line.startswith(("${", "$["), start):
            self.stop("a value that is computed")
        if not quoted and self.line.startswith(("$'", '$"'), start):
            self.stop("a text in code, or one that is translated")
        self.at += 1
        parts.plain = False
        parts.text.append("$")

    def substitution(self, opening: int, start: int, parts: Parts) -> None:
        """Parse commands whose output, or whose end of a pipe, becomes part of a word."""
        self.at = start + opening
        self.commands(")")
        parts.computed, parts.plain = True, False
        self.note("substitutions", self.line[start : self.at])

    def backquoted(self, parts: Parts) -> None:
        """Parse a substitution in backquotes."""
        start = self.at
        end = self.closing("`", start + 1)
        inner = self.line[start + 1 : end]
        if "\\" in inner:
            self.stop("a \\ within backquotes")
        self.inner(inner).commands("")
        self.at = end + 1
        parts.computed, parts.plain = True, False
        self.note("substitutions", self.line[start : self.at])

    def blanks(self) -> None:
        """Skip blanks and joined lines."""
        while True:
            while self.line[self.at : self.at + 1] in (" ", "\t"):
                self.at += 1
            if not self.line.startswith("\\\n", self.at):
                return
            if self.line[self.at - 1 : self.at] not in ("", " ", "\t", "\n"):
                self.stop("a line that goes on right behind an operator")
            self.at += 2
            self.note("lines that go on", "\\")

    def goes_on_within(self) -> None:
        """Stop where a backslash joins two lines within a word.

        A shell joins them before it looks for `$(`, `for` or where a text ends.
        """
        if self.line[self.at : self.at + 1] in ("", "\n"):
            self.stop("a line that goes on within a word")

    def closing(self, quote: str, start: int) -> int:
        """Return where the closing quote is; stop where it is missing."""
        end = self.line.find(quote, start)
        if end < 0:
            self.stop(f"a {quote} that is never closed")
        return end

    def take(self, end: int, skip: int = 0) -> str:
        """Consume the line up to `end`; return it without the first `skip` characters."""
        text = self.line[self.at + skip : end]
        self.at = end
        return text

    def stop(self, why: str, at: int | None = None) -> NoReturn:
        """Stop parsing: what comes now is not understood."""
        raise Unclear(f"from character {(self.at if at is None else at) + 1} on: {why}")
