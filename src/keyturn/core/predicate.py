"""Typed comparisons on validated arguments: which calls a grant or a rule means.

A predicate is data. It never coerces: a text is not a number, True is not 1, a missing argument matches
nothing, and what cannot be compared does not match. Unknown operators are refused when it is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from posixpath import normpath
from typing import Any, cast

from .digest import same
from .errors import UserError

Where = Mapping[str, Any]
_ABSENT = object()


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def check(value: Any, bound: Any) -> bool:
        both = (_number(value) and _number(bound)) or (isinstance(value, str) and isinstance(bound, str))
        return both and compare(value, bound)

    return check


def _equal(value: Any, wanted: Any) -> bool:
    if _number(value) and _number(wanted):
        return bool(value == wanted)
    return same(value, wanted)


def _matches(value: Any, pattern: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _under(value: Any, root: Any) -> bool:
    if not isinstance(value, str) or "\0" in value or "\\" in value or ".." in value.split("/"):
        return False
    path, top = normpath(value), normpath(root)
    return path == top or path.startswith(top.rstrip("/") + "/")


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal,
    "ne": lambda value, other: not _equal(value, other),
    "lt": _ordered(lambda value, bound: value < bound),
    "le": _ordered(lambda value, bound: value <= bound),
    "gt": _ordered(lambda value, bound: value > bound),
    "ge": _ordered(lambda value, bound: value >= bound),
    "one_of": lambda value, choices: any(_equal(value, choice) for choice in choices),
    "matches": _matches,
    "under": _under,
}


def _is_comparison(condition: Any) -> bool:
    return isinstance(condition, Mapping) and bool(cast("Mapping[str, Any]", condition))


def check_where(where: Where | None) -> None:
    """Refuse a predicate that could not be evaluated.

    >>> check_where({"amount": {"atmost": 5}})
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: unknown comparison 'atmost' on 'amount'; use one of eq, ne, lt, le, gt, ge, \
one_of, matches, under
    """
    for name, condition in (where or {}).items():
        if not _is_comparison(condition):
            continue
        for operator, operand in condition.items():
            if operator not in OPERATORS:
                raise UserError(f"unknown comparison {operator!r} on {name!r}; use one of {', '.join(OPERATORS)}")
            _check_operand(name, operator, operand)


def _check_operand(name: str, operator: str, operand: Any) -> None:
    if operator == "one_of" and not isinstance(operand, list | tuple):
        raise UserError(f"'one_of' on {name!r} takes a list")
    if operator in ("matches", "under") and not isinstance(operand, str):
        raise UserError(f"{operator!r} on {name!r} takes a text")
    if operator == "matches":
        try:
            re.compile(operand)
        except re.error as error:
            raise UserError(f"'matches' on {name!r} is not a regular expression: {error}") from None


def holds(where: Where | None, params: Any) -> bool:
    """Whether validated arguments satisfy a predicate.

    >>> holds({"to": "ada", "amount": {"le": 100}}, {"to": "ada", "amount": 100})
    True
    >>> holds({"amount": {"le": 100}}, {"amount": "100"})
    False
    """
    if not where:
        return True
    if not isinstance(params, Mapping):
        return False
    return all(_meets(_at(cast("Mapping[str, Any]", params), name), condition) for name, condition in where.items())


def _at(params: Mapping[str, Any], name: str) -> Any:
    if name in params:
        return params[name]
    value: Any = params
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return _ABSENT
        value = cast("Mapping[str, Any]", value).get(part, _ABSENT)
    return value


def _meets(value: Any, condition: Any) -> bool:
    if value is _ABSENT:
        return False
    if not _is_comparison(condition):
        return _equal(value, condition)
    return all(OPERATORS[operator](value, operand) for operator, operand in condition.items())
