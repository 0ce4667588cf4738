"""Typed comparisons on validated arguments: which calls a grant or a rule means.

A predicate is data. It never coerces: a text is not a number, True is not 1, a missing argument matches
nothing, and what cannot be compared does not match, not even `ne`. What could not be evaluated is refused when it is
made; what is evaluated all the same, because an older log holds it, does not match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import inf, isfinite
from posixpath import normpath
from typing import Any, cast
from unicodedata import normalize

from .digest import canonical, same
from .errors import BadJson, UserError

Where = Mapping[str, Any]
Comparison = Callable[[Any, Any], bool]
_ABSENT = object()
_TYPES = {type(None): "null", bool: "truth", int: "number", float: "number", str: "text", list: "list", dict: "object"}


def _equal(value: Any, wanted: Any) -> bool:
    if _TYPES[type(value)] == _TYPES[type(wanted)] == "number":
        return bool(value == wanted)
    return same(value, wanted)


def _differs(value: Any, other: Any) -> bool:
    """Another value of the same type. Only null is told from every type: {"ne": None} says that something was given."""
    if other is None:
        return value is not None
    return _TYPES[type(value)] == _TYPES[type(other)] and not _equal(value, other)


def _ordered(compare: Comparison) -> Comparison:
    def check(value: Any, bound: Any) -> bool:
        kind = _TYPES[type(value)]
        return kind in ("number", "text") and kind == _TYPES[type(bound)] and compare(value, bound)

    return check


# A model writes the text, and with the right one it can keep a backtracking matcher busy for years. So the ways in
# which a pattern can be tried are counted first, from above, and held to less than a second of work. No pattern is
# taken that is beyond it on 32 characters; on a text that is too long for it a pattern does not match.
_MOST_WAYS = 20_000_000
_SHORT = 32
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"  # an escape, a class
    r"|\(\?[aims]+\)|\((?:\?(?:[aims]*:|[=!>]|<[=!]|P<\w+>))?(?!\?)|\(\?|[|)]"  # flags, the begin of a group
    r"|(?:[*+?]|\{(?=[0-9,])[0-9]*,?[0-9]*\})[?+]?|.",  # a repeat, lazy or possessive; any other character
    re.DOTALL,
)


def _matches(value: Any, pattern: Any) -> bool:
    if not isinstance(value, str) or _ways(pattern, len(value)) > _MOST_WAYS:
        return False
    return re.fullmatch(pattern, value, re.ASCII) is not None


def _ways(pattern: str, length: int) -> float:
    """At most how many ways there are to match a pattern with a text of a length; infinite where nobody can tell."""
    outer: list[tuple[float, float]] = []
    # The ways of the branches before this one, of this branch up to the last atom, and of the last atom.
    branches, before, atom = 0.0, 1.0, 1.0
    for token in _TOKEN.findall(pattern):
        if token == "(?" or re.fullmatch(r"\\[1-9]", token):  # a construct not known here, a back-reference
            return inf
        if token[0] == "(" and token[-1] != ")":
            outer.append((branches, before * atom))
            branches, before, atom = 0.0, 1.0, 1.0
        elif token == ")":
            atom = branches + before * atom
            branches, before = outer.pop()
        elif token == "|":
            branches, before, atom = branches + before * atom, 1.0, 1.0
        elif token[0] in "*+?" or (token[0] == "{" and len(token) > 1):
            atom = _repeated(atom, token, length)
        else:
            before, atom = before * atom, 1.0
    return inf if outer else branches + before * atom


def _repeated(ways: float, token: str, length: int) -> float:
    """The ways of an atom when it is repeated: how often, times the ways of each time."""
    least, comma, most = {"*": "0,", "+": "1,", "?": "0,1"}.get(token[0], token.strip("{?+}")).partition(",")
    last = int(most) if most else length + 1 if comma else int(least)
    last = min(last, length + 1)
    stops = max(1, last - int(least or 0) + 1)
    # Thirty times in two ways each is over the limit already: no larger power is needed.
    return stops if ways <= 1 else stops * min(ways, 1e9) ** min(last, 30)


# What one reader of a path takes for a name and another for a way out: a control character, a backslash, "..", and
# what becomes one of them when a tool normalizes or decodes the text. Links on the disk are beyond a comparison.
_ODD_PATH = re.compile(r"[\x00-\x1f\x7f\\]|(?:^|/)\.\.(?:/|\Z)|%(?:00|25|2e|2f|5c)", re.IGNORECASE)


def _odd_path(path: str) -> bool:
    return _ODD_PATH.search(normalize("NFKC", path)) is not None


def _under(value: Any, root: Any) -> bool:
    if not isinstance(value, str) or _odd_path(value):
        return False
    path, top = normpath(value), normpath(root)
    return path == top or path.startswith(top.rstrip("/") + "/")


OPERATORS: dict[str, Comparison] = {
    "eq": _equal,
    "ne": _differs,
    "lt": _ordered(lambda value, bound: value < bound),
    "le": _ordered(lambda value, bound: value <= bound),
    "gt": _ordered(lambda value, bound: value > bound),
    "ge": _ordered(lambda value, bound: value >= bound),
    "one_of": lambda value, choices: any(_equal(value, choice) for choice in choices),
    "matches": _matches,
    "under": _under,
}


def holds(where: Where | None, params: Any) -> bool:
    """Whether validated arguments satisfy a predicate. It does not raise.

    A name with dots goes into objects; a list is compared as a whole. `matches` means the whole text, its digits and
    letters are those of ASCII, and it does not match where that could take long.

    >>> holds({"to": "ada", "amount": {"gt": 0, "le": 100}}, {"to": "ada", "amount": 100})
    True
    >>> holds({"amount": {"le": 100}}, {"amount": "100"})
    False
    """
    if not where:
        return True
    if not isinstance(params, Mapping):
        return False
    return all(_meets(cast("Mapping[str, Any]", params), name, condition) for name, condition in where.items())


def _at(params: Mapping[str, Any], name: str) -> Any:
    first, *inner = name.split(".")
    # Two arguments could be meant, and the model chooses what it sends: which of them the tool reads, nobody knows.
    if inner and name in params:
        return _ABSENT
    value: Any = params.get(first, _ABSENT)
    for part in inner:
        value = cast("Mapping[str, Any]", value).get(part, _ABSENT) if isinstance(value, Mapping) else _ABSENT
    return value


def number_at(params: Any, name: str) -> Fraction | None:
    """The number that an argument is, exactly as it is written; None where it is none, or not there.

    >>> number_at({"price": {"net": 0.1}}, "price.net"), number_at({"price": "5"}, "price")
    (Fraction(1, 10), None)
    """
    value: Any = _at(cast("Mapping[str, Any]", params), name) if isinstance(params, Mapping) else None
    if type(value) is int:
        return Fraction(value)
    return Fraction(repr(value)) if type(value) is float and isfinite(value) else None


def _meets(params: Mapping[str, Any], name: str, condition: Any) -> bool:
    try:
        value = _at(params, name)
        comparisons = list(_comparisons(condition)) if value is not _ABSENT else []
        return bool(comparisons) and all(OPERATORS[operator](value, operand) for operator, operand in comparisons)
    except Exception:  # fail closed: what cannot be evaluated does not match
        return False


def _comparisons(condition: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(condition, Mapping):
        yield from cast("Mapping[str, Any]", condition).items()
    else:
        yield "eq", condition


def check_where(where: Where | None) -> None:
    """Refuse a predicate that could not be evaluated.

    >>> check_where({"amount": {"atmost": 5}})
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: unknown comparison 'atmost' on 'amount'; use one of eq, ne, lt, le, gt, ge, \
one_of, matches, under
    """
    given: object = where
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise UserError("a predicate maps the names of arguments to what they must be")
    for name, condition in cast("Mapping[object, Any]", given).items():
        if not isinstance(name, str) or not all(name.split(".")):
            raise UserError(f"{name!r} is not the name of an argument; a dot goes into an object, as in 'to.country'")
        if isinstance(condition, Mapping) and not condition:
            raise UserError(f"the condition on {name!r} is empty; to compare with an empty object write {{'eq': {{}}}}")
        for operator, operand in _comparisons(condition):
            if operator not in OPERATORS:
                raise UserError(f"unknown comparison {operator!r} on {name!r}; use one of {', '.join(OPERATORS)}")
            _check_operand(name, operator, operand)


def _check_operand(name: str, operator: str, operand: Any) -> None:
    if operator == "one_of":
        if not isinstance(operand, list | tuple):
            raise UserError(f"'one_of' on {name!r} takes a list")
        operand = list(cast("list[Any] | tuple[Any, ...]", operand))
    try:
        canonical(operand)
    except BadJson as error:
        raise UserError(f"{operator!r} on {name!r} takes a JSON value: {error.reason}") from None
    if operator in ("lt", "le", "gt", "ge") and _TYPES[type(operand)] not in ("number", "text"):
        raise UserError(f"{operator!r} on {name!r} takes a number or a text")
    if operator == "matches":
        _check_pattern(name, operand)
    if operator == "under" and (not isinstance(operand, str) or _odd_path(operand) or normpath(operand) == "."):
        raise UserError(f"'under' on {name!r} takes a directory, such as '/srv/data' or 'src', and without '..' in it")


def _check_pattern(name: str, pattern: Any) -> None:
    if not isinstance(pattern, str):
        raise UserError(f"'matches' on {name!r} takes a text")
    try:
        re.compile(pattern, re.ASCII)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise UserError(f"'matches' on {name!r} is not a regular expression: {error}") from None
    if _ways(pattern, _SHORT) > _MOST_WAYS:
        raise UserError(
            f"'matches' on {name!r} could take too long on a text made for it: use at most four '*' or '+', each on "
            "a character and not on a group that holds a repeat or a '|', and no back-reference; 'one_of' lists texts"
        )
