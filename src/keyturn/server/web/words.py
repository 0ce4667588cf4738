"""Say predicates, terms, limits and lengths of time in words: sentences are ours, and what is quoted is data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ...core.approval import Approval
from ...core.durations import milliseconds
from ...policies.breaker import Breaker
from ...policies.limits import Budget, Rejections
from ...policies.rule import Limit
from ...presenting.clock import span
from ...presenting.terms import terms_of
from ...render.escape import clip, quote
from .shown import VisibleHtml, ready

_LONG = 200
_WORDS = {
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


def data(value: object) -> str:
    """Return a value as one escaped line: texts in quotes, lists with commas.

    >>> data("ann"), data(["ann", 5]), data(None)
    ('"ann"', '"ann", 5', 'not given')
    """
    if value is None:
        return "not given"
    if isinstance(value, str):
        return quote(value, _LONG)
    if isinstance(value, list | tuple):
        return ", ".join(data(each) for each in cast("list[Any]", value)) or "none"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return clip(text, _LONG, keep="")


def where_words(where: Mapping[str, Any] | None) -> list[VisibleHtml]:
    """Return a predicate as one sentence for each argument.

    >>> [str(each) for each in where_words({"amount": {"gt": 0, "le": 100}, "to": "ada"})]
    ['amount is more than 0 and is at most 100', 'to is &#34;ada&#34;']
    """
    return [ready(f"{quote(name)[1:-1]} {' and '.join(_compared(each))}") for name, each in (where or {}).items()]


def _compared(condition: object) -> Iterator[str]:
    if not isinstance(condition, Mapping):
        yield f"is {data(condition)}"
        return
    for operator, operand in cast("Mapping[str, Any]", condition).items():
        if operand is None and operator in ("eq", "ne"):
            yield "is not given" if operator == "eq" else "is given"
        else:
            yield f"{_WORDS.get(operator, operator)} {data(operand)}"


def terms_words(terms: Approval | None) -> list[VisibleHtml]:
    """Return the terms of an approval in sentences; none for terms that limit nothing.

    >>> [str(each) for each in terms_words(Approval(role="ops", expires="4h"))]
    ['approval from role &#34;ops&#34;', 'rejected after 4 h without a decision']
    """
    return [] if terms is None else [ready(each.text) for each in terms_of(terms)]


def limit_words(limit: Limit | None) -> VisibleHtml | None:
    """Return a limit in words; None where there is none.

    >>> from keyturn.policies.limits import Calls
    >>> print(limit_words(Calls(20, per="1h", of="requester")))
    once there were more than 20 calls in 1 h, of all runs of the same requester
    """
    if limit is None:
        return None
    if isinstance(limit, Rejections):
        what = "call with these arguments" if limit.same == "call" else "tool"
        return ready(f"once this {what} was rejected {limit.most} times")
    if isinstance(limit, Breaker):
        per = span(milliseconds(limit.per))
        whose = "in the run" if limit.of == "run" else f"of all runs of the same {limit.of}"
        return ready(f"once {limit.most} calls were {', '.join(limit.after)} in {per}, {whose}, until that is over")
    during = "" if limit.per is None else f" in {span(milliseconds(limit.per))}"
    whose = "in the run" if limit.of == "run" else f"of all runs of the same {limit.of}"
    if isinstance(limit, Budget):
        return ready(f"once the sum of {quote(limit.argument)} is over {limit.most}{during}, {whose}")
    return ready(f"once there were more than {limit.most} calls{during}, {whose}")
