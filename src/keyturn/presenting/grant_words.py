"""Say in words what a grant or a rule compares, and in which runs a grant applies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, LiteralString, NamedTuple, cast

from ..policies.grants import Scope
from ..render.escape import clip, quote

#: What a grant without a condition covers.
ANY: LiteralString = "any arguments"
_LONG = 200
#: How each comparison is said.
COMPARISONS = {
    "eq": "is",
    "ne": "is not",
    "lt": "is less than",
    "le": "is at most",
    "gt": "is more than",
    "ge": "is at least",
    "one_of": "is one of",
    "matches": "matches as a whole",
    "under": "is in the directory",
}
_MEMBERS = {"any": "is a list in which some member", "all": "is a list in which each member"}


class ScopeWords(NamedTuple):
    """Says in which runs a grant applies, and what that means."""

    name: LiteralString
    covers: LiteralString


SCOPES: dict[Scope, ScopeWords] = {
    "run": ScopeWords("this run only", "It ends with this run. The next run asks again."),
    "session": ScopeWords("every run of this session", "Later runs of the same conversation are covered as well."),
    "requester": ScopeWords("every run for this requester", "Runs of this agent that the same requester starts later."),
    "agent": ScopeWords("every run of this agent", "Runs for all requesters, also those that start later."),
}


_REACHES: dict[str, ScopeWords] = {**SCOPES}


def reach_words(reach: str) -> ScopeWords:
    """Return in which runs a grant applies, by what is recorded of it.

    >>> reach_words("").name, reach_words("agent:ops").name, reach_words("moon:1").name
    ('this run only', 'every run of this agent', 'more than this run')
    """
    return _REACHES.get(reach.partition(":")[0] or "run", ScopeWords("more than this run", ""))


def value_words(value: object) -> str:
    """Return a value as one escaped line: texts in quotes, lists in brackets.

    >>> value_words("ann"), value_words(["ann", [5]]), value_words(None)
    ('"ann"', '["ann", [5]]', 'not given')
    """
    if value is None:
        return "not given"
    if isinstance(value, str):
        return quote(value, _LONG)
    if isinstance(value, list | tuple):
        return f"[{_listed(cast('object', value))}]"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return clip(text, _LONG, keep="")


def _listed(values: object) -> str:
    return ", ".join(map(value_words, cast("list[Any]", values)))


def where_words(where: Mapping[str, Any] | None) -> list[str]:
    """Return a condition as one sentence for each argument; it is escaped.

    >>> where_words({"amount": {"gt": 0, "le": 100}, "size": {"ge": 0, "le": 10}, "to": "ada"})
    ['amount is more than 0 and is at most 100', 'size is from 0 to 10', 'to is "ada"']
    >>> where_words({"tags": ["a"], "commands": {"all": {"one_of": ["ls", "pwd"]}}})
    ['tags is ["a"]', 'commands is a list in which each member is one of "ls", "pwd"']
    """
    return [f"{quote(name)[1:-1]} {' and '.join(_compared(each))}" for name, each in (where or {}).items()]


def _compared(condition: object) -> Iterator[str]:
    if not isinstance(condition, Mapping):
        yield f"is {value_words(condition)}"
        return
    limits = cast("Mapping[str, Any]", condition)
    if set(limits) == {"ge", "le"}:
        yield f"is from {value_words(limits['ge'])} to {value_words(limits['le'])}"
        return
    for operator, operand in limits.items():
        if operand is None and operator in ("eq", "ne"):
            yield "is not given" if operator == "eq" else "is given"
        elif operator in _MEMBERS:
            yield f"{_MEMBERS[operator]} {' and '.join(_compared(operand))}"
        else:
            words = _listed(operand) or "none" if operator == "one_of" else value_words(operand)
            yield f"{COMPARISONS.get(operator, operator)} {words}"


def covered_words(where: Mapping[str, Any] | None) -> str:
    """Return which arguments a grant covers, as one escaped sentence.

    >>> covered_words({"amount": {"le": 100}, "to": "ada"}), covered_words(None)
    ('arguments where amount is at most 100, and to is "ada"', 'any arguments')
    """
    return f"arguments where {', and '.join(where_words(where))}" if where else ANY
