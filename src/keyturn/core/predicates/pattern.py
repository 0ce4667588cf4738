"""Bound the work of a regular expression on texts that a model writes, before it is matched.

With the right text a model can keep a backtracking matcher busy for years. So the steps of a pattern are counted
first, from above, and held to about a second. No pattern is taken that is beyond it on 32 characters; on a text that is
too long for a pattern nobody can tell whether it matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

from ..errors import UserError
from .reading import CannotTell, all_readings

MOST_STEPS = 10_000_000
SHORT = 32
#: Compiling a pattern takes far more time than reading it.
LONGEST = 2_000
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\Z)"  # an escape, a class
    r"|\(\?[aims]+\)|\((?:\?(?:[aims]*:|[=!>]|<[=!]|P<\w+>))?(?!\?)|\(\?|[|)]"  # flags, the begin of a group
    r"|(?:[*+?]|\{(?=[0-9,])[0-9]*+,?[0-9]*+\})[?+]?|.",  # a repeat, lazy or possessive; any other character
    re.DOTALL,
)
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")
_WIDTHLESS = ("^", "$", r"\A", r"\Z", r"\b", r"\B")
# Comparing a character is a small part of what one step back and forward takes.
_CHARACTER = 0.1


@dataclass(frozen=True)
class Work:
    """Bounds a part of a pattern: its ways to match, the steps to try all, and its shortest match."""

    ways: float
    steps: float
    least: int


_ONE = Work(1, _CHARACTER, 1)
_NOTHING = Work(1, _CHARACTER, 0)


@lru_cache(maxsize=1_024)
def steps(pattern: str, length: int) -> float:
    """Return how many steps a pattern takes on a text of a length at most; infinite where unknown.

    >>> steps("a*b", 10) < 100 < steps("a*a*b", 10) and steps(r"(a)\\1", 10)
    inf
    """
    outer: list[tuple[bool, list[list[Work]]]] = []
    branches: list[list[Work]] = [[]]
    for token in _tokens(pattern):
        branch = branches[-1]
        if token == "(?" or re.fullmatch(r"\\[1-9]", token):  # a construct not known here, a back-reference
            return inf
        if token[0] == "(" and token[-1] != ")":
            outer.append((token in _LOOKS, branches))
            branches = [[]]
        elif token == ")":
            looks, around = outer.pop()
            made = _either(branches)
            # A look ahead or behind is gone through once: it takes no character and is not tried in another way.
            around[-1].append(Work(1, made.steps + 1, 0) if looks else replace(made, steps=made.steps + 1))
            branches = around
        elif token == "|":
            branches.append([])
        elif token[0] in "*+?" or (token[0] == "{" and len(token) > 1):
            branch[-1] = _repeated(branch[-1], token, length)
        elif token[:2] != "(?":
            branch.append(_NOTHING if token in _WIDTHLESS else _ONE)
    return inf if outer else _either(branches).steps


def _tokens(pattern: str) -> Iterator[str]:
    """Return the parts of a pattern, without a greedy `.*` at its end under `(?s)`, which always matches."""
    tokens: list[str] = _TOKEN.findall(pattern)
    flags = tokens[0] if tokens and re.fullmatch(r"\(\?[aims]+\)", tokens[0]) else ""
    if "s" in flags and tokens[-2:] == [".", "*"]:
        return iter(tokens[:-2])
    return iter(tokens)


def _either(branches: list[list[Work]]) -> Work:
    made = [_one_after_another(branch) for branch in branches]
    return Work(sum(work.ways for work in made), sum(work.steps for work in made), min(work.least for work in made))


def _one_after_another(parts: list[Work]) -> Work:
    ways = 1.0
    steps = 0.0
    least = 0
    for part in parts:
        steps += ways * part.steps
        ways *= part.ways
        least += part.least
    return Work(ways, steps, least)


def _repeated(work: Work, token: str, length: int) -> Work:
    """Return the work of an atom when it is repeated: how often, times the ways of each time."""
    least, most = _bounds(token)
    # What takes no character is done as often as the pattern demands, and no more often than the text is long.
    last = min(most, length + 1 if work.least else least + length + 1)
    stops = max(1, last - least + 1)
    if work == _ONE:  # one character again and again is compared in one go
        return Work(stops, stops + last * _CHARACTER, least)
    if work.ways <= 1:
        return Work(stops, last * (work.steps + 1) + stops, work.least * least)
    # Thirty times in two ways each is over the limit already: no larger power is needed. Each time before the last is
    # gone through in fewer ways, and all of those together are less than the last.
    power = min(work.ways, 1e9) ** min(last, 30)
    return Work(stops * power, stops + power * (work.steps + 1), work.least * least)


def _bounds(token: str) -> tuple[int, float]:
    least, comma, most = {"*": "0,", "+": "1,", "?": "0,1"}.get(token[0], token.strip("{?+}")).partition(",")
    first = int(least or 0)
    return first, int(most) if most else inf if comma else first


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches the whole of a text; raise `CannotTell` where its readings disagree.

    A yes is one of the text as it stands, trimmed, decoded, normalized and, of a path, where it leads; a no also of the
    text as one line and without quotes. Case is the pattern's affair.

    >>> matches("DROP .*", "DROP table"), matches("[0-9]+", "\\u0665x")
    (True, False)
    """
    spent = steps(pattern, len(text))
    if spent > MOST_STEPS:
        raise CannotTell("it is too long for the pattern")
    readings = all_readings(text)
    if re.fullmatch(pattern, text, re.ASCII) is not None:
        # Who writes quotes into a pattern means them.
        for reading in (readings.meant if re.search("['\"`]", pattern) else readings.meant_unquoted)[1:]:
            spent += steps(pattern, len(reading))
            if spent > MOST_STEPS or re.fullmatch(pattern, reading, re.ASCII) is None:
                raise CannotTell("some tools read it as a text that does not")
        return True
    others = readings.texts[1:] if text.isascii() and "\n" not in text else readings.texts
    for reading in others:
        spent += steps(pattern, len(reading))
        if spent > MOST_STEPS or re.fullmatch(pattern, reading, re.DOTALL) is not None:
            raise CannotTell("some tools read it as a text that does")
    return False


def check_pattern(name: str, pattern: object) -> None:
    """Refuse what is no regular expression, and one that a short text could keep busy.

    >>> check_pattern("line", "(a+)+")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: 'matches' on 'line' could take too long on a text made for it: use at most four \
'*' or '+', each on a character and not on a group that holds a repeat or a '|', and no back-reference; 'one_of' \
lists texts
    """
    if not isinstance(pattern, str):
        raise UserError(f"'matches' on {name!r} takes a text")
    if len(pattern) > LONGEST:
        raise UserError(f"'matches' on {name!r} has {len(pattern)} characters, and {LONGEST} are the most")
    try:
        re.compile(pattern, re.ASCII)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise UserError(f"'matches' on {name!r} is not a regular expression: {error}") from None
    if steps(pattern, SHORT) > MOST_STEPS:
        raise UserError(
            f"'matches' on {name!r} could take too long on a text made for it: use at most four '*' or '+', each on "
            "a character and not on a group that holds a repeat or a '|', and no back-reference; 'one_of' lists texts"
        )
