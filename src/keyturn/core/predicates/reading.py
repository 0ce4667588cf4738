"""Enumerate how tools may read a text: as a path, as a number, in other characters that mean the same.

A comparison sees the text that a model wrote; the tool sees what its own reader makes of that text: trimmed, decoded,
normalized, unquoted, without regard to case. Nothing here says that two texts are the same. It says where nobody can
exclude it. Each reading of a text is made once, in time linear in its length; of a text that would take longer nobody
can tell how it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from typing import Any, Generic, TypeVar
from unicodedata import category, combining, decimal, normalize

from .order import order_of
from .paths import (
    is_elsewhere,
    is_odd,
    leads_out,
    may_be_anything,
    may_be_cut,
    may_be_one_file,
    may_begin,
    names_of,
    shortest,
)

T = TypeVar("T")
# Normalizing sorts the marks in a row and may make 18 characters of one. Unicode's stream-safe format has 30 marks.
MOST_NORMALIZED = 100_000
MOST_MARKS = 30
# Python converts integers in quadratic time; arguments hold none that are longer.
MOST_DIGITS = 4_300
SHORT = 256

# Drawn as nothing and skipped by readers although they are no format characters: Unicode's default ignorables.
_IGNORED = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0)
_DASHES = (*range(0x2010, 0x2016), 0x2212)
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_DECODINGS = 4
# Every reader reads such a text as it stands, but for the case of letters and for what it says as a number or a path.
_SIMPLE = re.compile(
    r"[A-Za-z0-9@_+=.,;:!#&()<>*?-]+(?: [A-Za-z0-9@_+=.,;:!#&()<>*?-]+)*"
    r"|/?[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*"
)
_MARKS = str.maketrans("", "", "'\"`")
_QUOTES = str.maketrans("", "", "'\"`\\")
# To a shell a variable that is not set is nothing: "..$x/etc" is "../etc".
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*!#?-]|\{[^{}]*\})")

# And this one is always set, to blanks.
_BLANK = re.compile(r"\$IFS\b|\$\{IFS\}")

_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER_BEGINS = re.compile(r"(?:[a-z]{3} ?)?([+-]?[0-9]+(?:\.[0-9]+)?)")
_NUMBERLIKE = re.compile(r"[0-9a-fox.+-]+")
_CURRENCY = "$\u00a2\u00a3\u00a4\u00a5\u20ac\u20b9\u20bf"


class CannotTell(Exception):
    """Raised where a comparison is undecidable; the reason is given without the value.

    >>> CannotTell("it is missing").why
    'it is missing'
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@cache
def _table() -> dict[int, int | None]:
    """Make the table that normalises characters: drops unseen ones, unifies dashes and digits."""
    table: dict[int, int | None] = dict.fromkeys((*_IGNORED, *range(0xE0000, 0xE1000)))
    for code in range(0x20000):
        char = chr(code)
        kind = category(char)
        if kind == "Cf" or (kind == "Cc" and not char.isspace()):
            table[code] = None
        elif kind == "Nd" and code > 0x7F:
            table[code] = ord("0") + decimal(char)
    table.update(dict.fromkeys(_DASHES, ord("-")))
    table[0x2800] = ord(" ")  # Braille without a dot
    return table


@cache
def _many_marks() -> re.Pattern[str]:
    """Return whether so many marks stand in a row that sorting them takes quadratic time."""
    marks = [char for char in map(chr, range(0x300, 0x20000)) if combining(normalize("NFKD", char)[0])]
    return re.compile(f"[{''.join(marks)}]{{{MOST_MARKS + 1}}}")


def normalized(text: str) -> str:
    """Return a text in NFKC, or raise `CannotTell` where normalising could take long.

    >>> normalized("\\uff15\\u2122")
    '5TM'
    """
    if text.isascii():
        return text
    if len(text) > MOST_NORMALIZED or (len(text) > MOST_MARKS and _many_marks().search(text) is not None):
        raise CannotTell("it is too long to tell how tools read it")
    made = normalize("NFKC", text)
    if len(made) > 2 * MOST_NORMALIZED:
        raise CannotTell("it is too long to tell how tools read it")
    return made


def plain(text: str) -> str:
    """Return a text without what is unseen, in the characters of NFKC, with the digits of ASCII, trimmed.

    >>> plain(" \\u0665\\uff05 \\u200b")
    '5%'
    """
    if text.isascii() and text.isprintable():
        return text.strip()
    return normalized(text).translate(_table()).strip()


def folded(text: str) -> str:
    """Return a plain text without regard to case and to how wide its spaces are.

    >>> folded("DROP \\n Table")
    'drop table'
    """
    return _folded(plain(text))


def _folded(clear: str) -> str:
    return " ".join(normalized(clear.casefold()).split())


def decoded(text: str) -> str:
    """Return a text with its percent escapes decoded, or raise `CannotTell` where they are nested again and again.

    >>> decoded("%252e%252e/x")
    '../x'
    """
    for _round in range(_DECODINGS):
        if "%" not in text:
            return text
        made = _PERCENT.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode(errors="replace"), text)
        if made == text:
            return text
        text = made
    if _PERCENT.search(text) is not None:
        raise CannotTell("it is escaped too often to tell how tools read it")
    return text


def opened(text: str) -> str:
    """Return a plain text that was decoded, before it was normalized and after.

    >>> opened(" \\uff052e%2e ")
    '..'
    """
    made = plain(decoded(text))
    return plain(decoded(made)) if "%" in made else made


def unquoted(text: str) -> str:
    """Return a text as a shell leaves it: without quotes, backslashes, and variables that are not set.

    >>> unquoted("'/e'\\\\tc/$9x"), unquoted("rm${IFS}x")
    ('/etc/x', 'rm x')
    """
    return _VARIABLE.sub("", _BLANK.sub(" ", text)).translate(_QUOTES)


def _with_ways_out(texts: list[str]) -> tuple[str, ...]:
    found = dict.fromkeys(texts)
    for each in texts:
        if ("/" in each or "\\" in each) and leads_out(each.replace("\\", "/")):
            found[shortest(each)] = None
            found["/" * each.startswith(("/", "\\")) + "/".join(names_of(each, cut=True))] = None
    return tuple(found)


class _Once(Generic[T]):
    """Caches a reading that is made once, and the doubt where it cannot be made."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__

    def __get__(self, readings: Readings, owner: type) -> T:
        doubt = readings.doubts.get(self._name)
        if doubt is not None:
            raise CannotTell(doubt)
        try:
            made = self._make(readings)
        except CannotTell as error:
            readings.doubts[self._name] = error.why
            raise
        readings.__dict__[self._name] = made  # found there before this descriptor
        return made


class Readings:
    """Caches what readers make of one text, each made when it is first needed.

    >>> Readings("/srv/../etc/passwd ").texts
    ('/srv/../etc/passwd ', '/srv/../etc/passwd', '/etc/passwd ', '/etc/passwd')
    >>> Readings("ada").texts
    ('ada',)
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.doubts: dict[str, str] = {}

    @_Once
    def is_simple(self) -> bool:
        """Return whether every reader reads the text as it stands, but for case and the place of a path."""
        return _SIMPLE.fullmatch(self.text) is not None

    @_Once
    def texts(self) -> tuple[str, ...]:
        """Return the text as it stands, and the others that a reader may make of it, case aside."""
        if self.is_simple:
            return (self.text,)
        line = " ".join(self._opened.split())
        joined = self._opened.replace("\\\n", "")  # a line that goes on in the next one
        several = [line] if joined == self._opened else [line, joined]
        found = dict.fromkeys([*self.meant, line, *(" ".join(unquoted(each).split()) for each in several)])
        for each in [*found]:
            if "/" in each or "\\" in each:
                found[shortest(each)] = None
        return tuple(found)

    @_Once
    def meant(self) -> tuple[str, ...]:
        """Return the readings of one who means what is written: as it stands, trimmed, decoded, resolved as a path."""
        return (self.text,) if self.is_simple else _with_ways_out([self.text, plain(self.text), self._opened])

    @_Once
    def meant_unquoted(self) -> tuple[str, ...]:
        """Return those readings, and what is between quotes."""
        if self.is_simple:
            return (self.text,)
        return tuple(dict.fromkeys([*self.meant, *_with_ways_out([each.translate(_MARKS) for each in self.meant])]))

    @_Once
    def _opened(self) -> str:
        return self.text if self.is_simple else opened(self.text)

    @_Once
    def folded(self) -> str:
        """Return the text folded: case and spaces aside."""
        return self.text.lower() if self.is_simple else _folded(self._opened)

    @_Once
    def bare(self) -> str:
        """Return the folded text as a shell leaves it."""
        return self.folded if self.is_simple else " ".join(unquoted(self.folded).split())

    @_Once
    def has_digit(self) -> bool:
        """Return whether a reader could find a number in the text at all."""
        if re.search("[0-9]", self.folded) is not None:
            return True
        return not self.text.isascii() and any(map(str.isnumeric, self.text))

    @_Once
    def is_odd_path(self) -> bool:
        """Return whether tools read the path differently."""
        return any(map(is_odd, self.texts))

    @_Once
    def numbers(self) -> frozenset[Decimal]:
        """Return the numbers that the text may be read as; comma and full stop are each read as the other too."""
        bare = self.folded.translate(_QUOTES).strip(_CURRENCY + " ")
        if re.search("[0-9]", bare) is None:
            return frozenset()
        if bare[0] == "(" and bare[-1] == ")":  # as in accounts
            bare = "-" + bare[1:-1]
        english = re.sub(r"[ ,_]", "", bare)
        continental = re.sub(r"[ ._]", "", bare).replace(",", ".")
        return frozenset(made for made in map(_number, {english, continental}) if made is not None)

    @_Once
    def number_begins(self) -> Decimal | None:
        """Return the number that the text begins with: many readers stop at what is none."""
        begin = _NUMBER_BEGINS.match(self.folded.translate(_QUOTES).lstrip(_CURRENCY + " "))
        return None if begin is None else _number(begin[1])

    @_Once
    def is_date(self) -> bool:
        """Return whether the text may be read as a date."""
        return _ISO_DATE.match(self.folded) is not None

    @_Once
    def names(self) -> tuple[tuple[bool, tuple[str, ...]], ...]:
        """Return the paths that the text may be: whether each is absolute, and its folded names."""
        if not self.text:
            return ()
        found: dict[tuple[bool, tuple[str, ...]], None] = {}
        escaped = (folded(self.text),) if "%" in self.text else ()
        for each in dict.fromkeys((self.folded, self.bare, *escaped)):
            if not each:
                found[False, ()] = None  # what is unseen may be dropped, and nothing may be where a tool begins
                continue
            is_absolute = each[0] in "/\\"
            found[is_absolute, names_of(each)] = None
            if may_be_cut(each):
                found[is_absolute, names_of(each, cut=True)] = None
        return tuple(found)


_short = lru_cache(maxsize=2_048)(Readings)
# One call at a time has a long text or two; keeping more would keep megabytes.
_long = lru_cache(maxsize=2)(Readings)


def all_readings(text: str) -> Readings:
    """Return what readers make of a text, shared by all rules and choices that ask of one call.

    >>> all_readings("Prod ").folded
    'prod'
    """
    return _short(text) if len(text) <= SHORT else _long(text)


def _number(text: str) -> Decimal | None:
    if len(text) > MOST_DIGITS:
        if _NUMBERLIKE.fullmatch(text) is None:
            return None
        raise CannotTell("it is too long a number")
    try:
        made = Decimal(text)
        return made if made.is_finite() else None
    except InvalidOperation:
        pass
    try:
        return Decimal(int(text, 0))
    except ValueError:
        return None


def has_digit(text: str) -> bool:
    """Return whether a reader could find a number in a text at all.

    >>> has_digit("no"), has_digit("\\u2167")
    (False, True)
    """
    return all_readings(text).has_digit


def alike(one: str, other: str) -> bool:
    """Return whether some reader could take one text for the other: as a word, as a number, as a date or as a path.

    >>> alike("./secret.txt", "secret.txt"), alike("Prod ", "prod"), alike("5e2", "500"), alike("ada", "adam")
    (True, True, True, False)
    """
    if one.isalpha() and other.isalpha() and one.isascii() and other.isascii():  # two words, as most are
        return one.lower() == other.lower()
    mine = all_readings(one)
    its = all_readings(other)
    if mine.folded == its.folded or mine.bare == its.bare:
        return True
    if mine.has_digit and its.has_digit and _may_be_one_number(mine, its):
        return True
    return any(may_be_one_file(path, same) for path in mine.names for same in its.names)


def _may_be_one_number(mine: Readings, its: Readings) -> bool:
    if mine.numbers & its.numbers or mine.number_begins in its.numbers or its.number_begins in mine.numbers:
        return True
    # A date can be written in many ways; two in the same way are two texts.
    return (mine.is_date or its.is_date) and order_of(mine.text) != order_of(its.text)


def odd_path(path: str) -> bool:
    """Return whether tools read a path differently, in any reading; links on the disk cannot be seen here.

    >>> odd_path("/srv/data/a b"), odd_path("/srv/../etc"), odd_path("/srv/%2e%2e/etc"), odd_path("/srv/.. ")
    (False, True, True, True)
    """
    return all_readings(path).is_odd_path


def may_be_under(path: str, root: str) -> bool:
    """Return whether some reader could take a path for one under the root."""
    readings = all_readings(path)
    if is_elsewhere(readings.folded) or may_be_anything(readings.text) or may_be_anything(readings.folded):
        return True
    tops = [names for _, names in all_readings(root).names]
    return any(may_begin(names, top) for _, names in readings.names for top in tops)
