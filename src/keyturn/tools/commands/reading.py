"""Parse a command line as a shell would: its programs, and everything in it beside programs and words.

An honest reader for people and for rules. It does not guess: where it meets what it does not know, it stops and says
so, and what it had read up to there is all that it claims. It runs nothing, and its time is bounded by the length
of the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from unicodedata import name as name_of

from ...render.escape import escape
from .runners import steers
from .words import ShellWord, Unclear, WordReader

LONGEST = 1 << 16
DEEPEST = 8
_CONTROL = frozenset({"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!"})
_OPAQUE = frozenset({"for", "case", "esac", "select", "function", "coproc", "in", "[[", "]]"})
_GOES_ON = frozenset({"&&", "||", "|", "|&"})
_OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;;|;&|;|&|\||\n")
_REDIRECTION = re.compile(r"(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(?:<<<|<<-|<<|<>|<&|>\||>>|>&|>|<)|&>>|&>")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ELEMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_OF_TIME = re.compile(r"(?:[ \t]+-p)?(?:[ \t]+--)?(?=[ \t]|$)")


@dataclass
class Simple:
    """Holds one simple command: a program with its arguments, assignments and redirections."""

    words: list[ShellWord] = field(default_factory=list[ShellWord])
    settings: list[str] = field(default_factory=list[str])
    redirections: list[str] = field(default_factory=list[str])


@dataclass
class CommandReading:
    """Holds what was parsed of a line, in the order of the line.

    `others` holds what is in it beside programs and words, by what it is. `unclear` says where the reader stopped and
    why; it is "" if it read to the end.
    """

    commands: list[Simple] = field(default_factory=list[Simple])
    joined: list[str] = field(default_factory=list[str])
    others: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    unclear: str = ""

    def note(self, what: str, text: str) -> None:
        """Record one thing that is more than a word."""
        self.others.setdefault(what, []).append(text)


def read_command(line: str) -> CommandReading:
    """Parse one line as a shell would.

    >>> reading = read_command("cat a.txt | sort > $(date).txt")
    >>> [command.words[0].text for command in reading.commands], reading.joined
    (['cat', 'date', 'sort'], ['|'])
    >>> reading.others["substitutions"], reading.unclear
    (['$(date)'], '')
    >>> read_command("case $1 in a) rm b;; esac").unclear
    "from character 1 on: 'case'"
    """
    reading = CommandReading()
    hidden(line, reading)
    if len(line) > LONGEST:
        reading.unclear = f"it is longer than {LONGEST} characters"
        return reading
    reader = _Reader(line, reading, 0)
    try:
        reader.commands("")
    except Unclear as stopped:
        reading.unclear = str(stopped)
    return reading


def hidden(line: str, reading: CommandReading) -> None:
    """Record invisible characters, and letters that only look like plain ones."""
    if line.isascii() and line.isprintable():
        return
    for char in sorted(set(line) - set("\n\t\\")):
        if escape(char) != char:
            reading.note("hidden characters", f"U+{ord(char):04X} {name_of(char, 'CONTROL')}")
        elif not char.isascii():
            reading.note("letters outside of ASCII", f"{char} U+{ord(char):04X} {name_of(char, '')}")


class _Reader(WordReader):
    """Parses the commands of a line, or of a part of it."""

    def __init__(self, line: str, reading: CommandReading, depth: int) -> None:
        super().__init__(line, reading.note, depth)
        self.reading = reading
        self.waiting: list[tuple[str, bool, bool]] = []
        self.begun, self.goes_on = False, False

    def inner(self, line: str) -> _Reader:
        """Parse what stands in backquotes."""
        return _Reader(line, self.reading, self.depth)

    def commands(self, closing: str) -> None:
        """Parse commands up to `closing`, or to the end of the line."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.stop(f"more than {DEEPEST} levels within each other")
        if self.waiting:  # its text begins at the next new line, even one within what begins here
            self.stop("something within a line that has a here-document")
        self.begun = self.goes_on = False
        here = Simple()
        while True:
            self.blanks()
            char = self.line[self.at : self.at + 1]
            if char == closing:
                self.at += len(closing)
                break
            if not char:
                self.stop(f"there is no {closing} to end what was opened")
            here = self.piece(char, here)
        self.finish(here)
        if self.waiting:
            self.stop("a here-document that does not end")
        if self.goes_on and not self.begun:
            self.stop("there is nothing behind an operator")
        self.begun, self.goes_on = True, False
        self.depth -= 1

    def piece(self, char: str, here: Simple) -> Simple:
        """Parse one operator, redirection or word; return the command that what follows belongs to."""
        if char == "#":
            end = self.line.find("\n", self.at)
            self.note("comments", self.take(len(self.line) if end < 0 else end))
            return here
        operator = _OPERATOR.match(self.line, self.at)
        if operator is not None and not self.line.startswith("&>", self.at):
            return self.join(operator, here)
        self.begun = True
        redirection = _REDIRECTION.match(self.line, self.at)
        if redirection is not None and not self.line.startswith(("<(", ">("), self.at):
            self.at = redirection.end()
            self.redirect(redirection.group(), here)
            return here
        if char == "(":
            self.subshell(here)
            return Simple()
        if char == ")":
            self.stop("a ) that nothing opened")
        self.word_of(here)
        return here

    def join(self, operator: re.Match[str], here: Simple) -> Simple:
        """Parse the operator between two commands."""
        self.at = operator.end()
        symbol = operator.group()
        if symbol.startswith((";;", ";&")):
            self.stop(repr(symbol), operator.start())
        if not self.begun and symbol != "\n":
            self.stop(f"there is nothing before {symbol}", operator.start())
        if self.begun or symbol != "\n":
            self.goes_on = symbol in _GOES_ON
        self.begun = False
        self.finish(here)
        if symbol == "\n":
            self.documents()
            symbol = "a new line"
        if symbol == "&":
            self.note("in the background", here.words[0].raw if here.words else "a group")
        self.reading.joined.append(symbol)
        return Simple()

    def subshell(self, here: Simple) -> None:
        if here.words or here.settings or here.redirections:
            self.stop("a ( that makes a function, a list or a pattern")
        if self.line.startswith("((", self.at):
            self.stop("arithmetic")
        start = self.at
        self.at += 1
        self.commands(")")
        self.note("subshells", self.line[start : self.at])

    def word_of(self, here: Simple) -> None:
        """Parse the next word, as what it is to the current command."""
        start = self.at
        word = self.word()
        first = not here.words and not here.settings
        if first and word.raw == "for" and not here.redirections:
            self.loop(start)
            return
        if first and word.raw in _OPAQUE:
            self.stop(repr(word.raw), start)
        if not here.words and _ELEMENT.match(word.raw):
            self.stop("an element of a list, whose place is computed", start)
        if first and here.redirections and word.raw in _CONTROL:
            self.stop(f"{word.raw!r} behind a redirection", start)
        if first and word.raw in _CONTROL:
            self.note("control", word.raw)
        elif first and word.raw == "time":
            self.timed(word)
        elif not here.words and _ASSIGNMENT.match(word.raw):
            here.settings.append(word.raw)
        else:
            here.words.append(word)

    def loop(self, start: int) -> None:
        """Parse `for NAME in WORDS`: its words are no programs; the body is parsed as all else."""
        self.blanks()
        name = self.word().raw
        self.blanks()
        if not _ASSIGNMENT.fullmatch(f"{name}=") or steers(f"{name}=") or self.word().raw != "in":
            self.stop("a loop that is not for NAME in WORDS", start)
        self.note("control", f"for {name}")
        self.blanks()
        while self.line[self.at : self.at + 1] not in (";", "\n"):
            if self.line.startswith("#", self.at) or not self.word().raw:
                self.stop("no end of the words of a loop")
            self.blanks()

    def timed(self, word: ShellWord) -> None:
        """Parse `time`: a word of the shell in one place and a program in another, so it counts as both."""
        self.finish(Simple([word]))
        options = _OF_TIME.match(self.line, self.at)
        self.at = options.end() if options else self.at

    def finish(self, here: Simple) -> None:
        """Complete a command."""
        if here.words or here.settings or here.redirections:
            self.reading.commands.append(here)

    def redirect(self, operator: str, here: Simple) -> None:
        """Parse a redirection, and for a here-document its text, which begins on the next line."""
        self.blanks()
        target = self.word()
        if not target.raw:
            self.stop("a redirection to nothing")
        if operator.endswith("&") and target.raw.startswith("-") and target.raw != "-":
            self.stop("a word right behind a closing -")
        here.redirections.append(f"{operator} {target.raw}")
        self.note("redirections", f"{operator} {target.raw}")
        if operator.endswith(("<<", "<<-")) and not operator.endswith("<<<"):
            if target.text is None:
                self.stop("a here-document whose end is computed")
            self.waiting.append((target.text, target.raw == target.text, operator.endswith("-")))

    def documents(self) -> None:
        """Parse the here-documents that begin at this new line."""
        for end, expands, indented in self.waiting:
            lines = 0
            while True:
                if self.at >= len(self.line):
                    self.stop("a here-document that does not end")
                stop = self.line.find("\n", self.at)
                text = self.take(len(self.line) if stop < 0 else stop)
                self.at += 1
                if (text.lstrip("\t") if indented else text) == end:
                    break
                if expands and re.search(r"[$`\\]", text):
                    self.stop("a here-document in which the shell computes something")
                lines += 1
            self.note("here-documents", f"{lines} {'line' if lines == 1 else 'lines'} up to {end}")
        self.waiting = []
