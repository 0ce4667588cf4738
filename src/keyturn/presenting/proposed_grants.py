"""Grants that are proposed to a person: made of the very arguments on the screen, the narrowest first, and in words.

A value stands in these words as JSON, so that none can pass for a word of ours; they are shown as anybody's. What the
tool marks as secret stands in no grant: a grant is kept, and shown to others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from posixpath import dirname
from typing import Any, NamedTuple, cast

from ..core.errors import UserError
from ..core.predicates.paths import is_elsewhere, names_of
from ..core.predicates.predicate import holds
from ..core.values import is_number
from ..policies.grants import Grant
from ..render.arguments import is_text, shown_name
from .grant_words import ANY

_ELSE = ", with any other arguments"
DIGITS = 9  # that a number of calls has at most
SINGLE = 3  # so many proposals that fix one argument alone
# What an argument is called that names a file. Of any other text nobody knows what a slash in it means: "cat src/x" is
# no file in "cat src", and all that a shell takes may follow it.
_FILES = frozenset({"path", "file", "filename", "filepath", "folder", "dir", "directory"})
# What the other places of a call are called, of which no word on its file says anything; or what is no file at all.
_PLACES = _FILES | {"source", "src", "destination", "dest", "dst", "target", "to", "into", "output", "out"}
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


class ProposedGrant(NamedTuple):
    """Describes a grant that somebody may choose: what it compares, and the same in words."""

    where: dict[str, Any] | None
    words: str


def proposed_grants(params: object, secrets: Collection[str] = (), *, complete: bool = False) -> list[ProposedGrant]:
    """Return the grants that could be made of these arguments, the narrowest first, each of which covers them.

    `complete` says that a call of this tool can have no arguments but these: only then is anything exact.

    >>> for made in proposed_grants({"to": "ada", "amount": 3}, complete=True):
    ...     print(made.words)
    exactly these arguments: to is "ada", amount is 3
    to is "ada", amount is from 0 to 3
    to is "ada", with any other arguments
    any arguments
    """
    if not isinstance(params, Mapping) or not params:
        return [ProposedGrant(None, ANY)]
    given = cast("Mapping[str, Any]", params)
    hidden = {name for name in given if any(path == name or path.startswith(f"{name}.") for path in secrets)}
    named = {name: value for name, value in given.items() if name not in hidden}
    but = "".join(f", with any {shown_name(name)}" for name in given if name in hidden)
    proposed = _narrowed(named, but if complete else f"{but}{_ELSE}", whole=complete and not but)
    made = [each for each in proposed if _covers(each, given)]
    return [*made, ProposedGrant(None, ANY)]


def grant_for(chosen: ProposedGrant, terms: str) -> Grant:
    """Return the grant that somebody chose, for as long as they typed: "run", a number of calls, or a duration.

    >>> grant_for(ProposedGrant(None, ANY), "3").uses
    3
    """
    if terms.lower() == "run":
        return Grant(where=chosen.where)
    counted = terms.isascii() and terms.isdecimal() and len(terms) <= DIGITS
    return Grant(where=chosen.where, uses=int(terms)) if counted else Grant(chosen.where, terms)


def how_long(grant: Grant) -> str:
    """Say in words how long a grant holds.

    >>> how_long(Grant(uses=1)), how_long(Grant(expires="2h"))
    ('for one more call', 'for 2h')
    """
    if grant.uses is not None:
        return f"for {grant.uses} more calls" if grant.uses > 1 else "for one more call"
    return "until this run ends" if grant.expires is None else f"for {grant.expires}"


def _narrowed(named: Mapping[str, Any], but: str, *, whole: bool) -> Iterator[ProposedGrant]:
    """Yield all values as they are, numbers as limits, then one argument alone, and the directory of one."""
    if not named:
        return
    exact = {name: {"eq": value} for name, value in named.items()}
    lead = "exactly these arguments: " if whole else ""
    yield ProposedGrant(exact, f"{lead}{_words(exact, named)}{but}")
    limits = {name: {"ge": 0, "le": value} for name, value in named.items() if _is_amount(value)}
    if limits:
        yield ProposedGrant(exact | limits, f"{_words(exact | limits, named)}{but}")
    others = "" if whole and len(named) == 1 else _ELSE
    short = [name for name, value in named.items() if isinstance(value, str) and value and not is_text(value)][:SINGLE]
    for name in short if len(named) > 1 else ():
        alone = {name: exact[name]}
        yield ProposedGrant(alone, f"{_words(alone, named)}{others}")
    places = [name for name in named if _is_called(name, _PLACES)]
    if whole and len(places) == 1 and places[0] in short and _is_called(places[0], _FILES):
        yield from _directory(places[0], named, others)


def _directory(name: str, named: Mapping[str, Any], others: str) -> Iterator[ProposedGrant]:
    """Yield the directory of the one file that a call is about; no other call could be about a second one."""
    above = dirname(named[name])
    if names_of(above) and not is_elsewhere(above):  # else it is everything, however it is written: "/", "/.", " "
        under = {name: {"under": above}}
        yield ProposedGrant(under, f"{_words(under, named)}{others}")


def _is_called(argument: str, words: Collection[str]) -> bool:
    """Return whether an argument is called one of some words, by the last word of its own name.

    >>> [_is_called(name, _FILES) for name in ("target_path", "logFile", "command", "sql")]
    [True, True, False, False]
    """
    found = _WORDS.findall(argument)
    return bool(found) and found[-1].lower() in words


def _covers(made: ProposedGrant, params: Mapping[str, Any]) -> bool:
    """Return whether a proposal can be given, and surely means the call that it was made of."""
    try:
        return holds(Grant(where=made.where).where, params)
    except UserError:
        return False


def _is_amount(value: object) -> bool:
    return is_number(value) and isfinite(value) and value > 0


def _words(where: Mapping[str, Mapping[str, Any]], named: Mapping[str, Any]) -> str:
    """Say in words what a grant compares; a long text is named by its length."""
    return ", ".join(f"{shown_name(name)} {_condition(condition, named[name])}" for name, condition in where.items())


def _condition(condition: Mapping[str, Any], value: Any) -> str:
    if "le" in condition:
        return f"is from 0 to {_json(value)}"
    if "under" in condition:
        return f"is in the directory {_json(condition['under'])}"
    return f"is the same text of {len(value)} characters" if is_text(value) else f"is {_json(value)}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
