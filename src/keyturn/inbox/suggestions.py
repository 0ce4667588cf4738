"""Suggest rules from what people always approved: a predicate on arguments, its policy text, and what it came to.

Only rows are read, a bounded number of the newest. A suggestion is made by replaying: of the requests that it was made
from, it lets run as many as it says, all of them approved as they were asked. Nothing is concluded from a secret, from
a tool whose rows were altered, or where one person's word is not enough. It is a suggestion: who pastes it decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple, cast

import msgspec

from ..core.predicates.predicate import holds, number_at
from ..core.records import BY_GRANT
from ..journal.base import Store
from ..journal.rows import Query, RequestRow
from .replayed import Suggestion

#: Of how many requests the newest are read at most, whatever their tool.
SCANNED = 20_000
# Fewer prove nothing; an argument with more values than that is not one of a few.
FEWEST = 20
_FEW = 8
_PAGE = 500
_SHARES = (Fraction(1), Fraction(19, 20), Fraction(9, 10), Fraction(4, 5), Fraction(1, 2))
# A text that is a name or an address and nothing that a program could run. Where there were many, any such may come.
_NAME = re.compile(r"[\w.@+-]{0,64}", re.ASCII)
_PLAIN_KINDS = ("function", "mcp")
_MISSING = object()


class _Past(NamedTuple):
    """Holds one decided request: what it would have run, whether that was approved as it was, and what is hidden."""

    params: dict[str, Any]
    approved: bool
    secrets: tuple[str, ...]


async def suggestions_from(store: Store, tool: str | None, newest: int) -> list[Suggestion]:
    """Return suggestions from the newest rows of a store, those that save most first."""
    groups: dict[tuple[str, str], list[RequestRow]] = {}
    query, seen = Query(newest=True, limit=_PAGE), 0
    while seen < SCANNED and (page := await store.requests(query)):
        for row in page:
            part = groups.setdefault((row.tool, row.agent), [])
            if row.state != "open" and len(part) < newest:
                part.append(row)
        seen += len(page)
        query = msgspec.structs.replace(query, after=page[-1].place)
    if ("", "") in groups:  # what was altered may be a rejection, of any tool
        return []
    wanted = {key: rows for key, rows in groups.items() if tool in (None, key[0])}
    made = [suggestion for key, rows in wanted.items() if (suggestion := suggest(*key, rows)) is not None]
    return sorted(made, key=lambda each: (-each.saves, each.tool, each.agent))


def suggest(tool: str, agent: str, rows: Sequence[RequestRow]) -> Suggestion | None:
    """Return the rule that lets most of these decided requests run; None where no rule can be told from them."""
    if "*" in tool or "*" in agent or any(row.state == "damaged" for row in rows):
        return None
    past = decided_in(rows)
    if past is None or sum(each.approved for each in past) < FEWEST:
        return None
    secrets = {name.partition(".")[0] for each in past for name in each.secrets}
    found = max(_tried(past, secrets), key=lambda one: one[0], default=None)
    if found is None:
        return None
    saves, where = found
    names = {name for each in past for name in each.params}
    return Suggestion(
        tool=tool,
        agent=agent,
        decided=len(past),
        approved=sum(each.approved for each in past),
        saves=saves,
        where=where,
        free=sorted(name for name in names if "matches" in where.get(name, {"matches": None})),
        policy=rule_text(tool, agent, where),
    )


def decided_in(rows: Sequence[RequestRow]) -> list[_Past] | None:
    """Return what was decided, each with whether it was approved unchanged; None where one word is not enough.

    What a grant let run is not anybody's judgement, and a call in doubt or a question asks for something else.
    """
    past: list[_Past] = []
    for row in rows:
        if row.kind != "approval" or (row.state == "approve" and row.by.startswith(BY_GRANT)):
            continue
        try:
            told: dict[str, Any] = msgspec.json.decode(row.body)
        except msgspec.DecodeError:
            return None
        terms: dict[str, Any] = told.get("terms") or {}
        if terms.get("quorum", 1) > 1 or any(terms.get(name) for name in ("signed", "step_up", "confirm")):
            return None
        params = told.get("params")
        if told.get("tool_kind", "function") not in _PLAIN_KINDS or not isinstance(params, dict):
            return None
        secrets = tuple(told.get("secrets") or ())
        past.append(_Past(cast("dict[str, Any]", params), row.state == "approve", secrets))
    return past


def _tried(past: list[_Past], secrets: set[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield predicates with how many they let run: those that let run enough, and none that was not approved so."""
    for where in _candidates(past, secrets):
        let = [each for each in past if holds(where, each.params)]
        if len(let) >= FEWEST and all(each.approved for each in let):
            yield len(let), where


def _candidates(past: list[_Past], secrets: set[str]) -> Iterator[dict[str, Any]]:
    """Yield predicates: each argument of a few values is one of those, and each number within what was approved."""
    good = [each.params for each in past if each.approved]
    bad = [each.params for each in past if not each.approved]
    numbers: dict[str, list[Any]] = {}
    few: dict[str, list[Any]] = {}
    free: dict[str, Any] = {}
    for name in sorted({name for params in chain(good, bad) for name in params} - secrets):
        values = [params.get(name, _MISSING) for params in good]
        if "." in name or not _comparable(values):
            return  # nothing could be said of it, and anything could be in it
        several = _several(values)
        if len(several) <= _FEW and not (len(several) > 2 and _numeric(name, good)):
            few[name] = several
        elif _numeric(name, good):
            numbers[name] = sorted(values)
        elif all(isinstance(value, str) and _NAME.fullmatch(value) for value in values):
            free[name] = {"matches": _NAME.pattern}
        else:
            return
    if not (few or numbers):
        return
    base = free | {name: _among(values) for name, values in few.items()}
    base |= {name: _within(values, Fraction(1)) for name, values in numbers.items()}
    if base:
        yield base
    narrowed = [base, *(base | {name: each} for name, each in _narrower(few, bad))]
    for each in narrowed:
        if each:
            yield each
        for name, values in numbers.items():
            yield from (each | {name: _within(values, share)} for share in _SHARES)


def _narrower(few: dict[str, list[Any]], bad: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield, of each argument of a few values, those that were never anything but approved."""
    for name, values in few.items():
        refused = [params.get(name, _MISSING) for params in bad]
        left = [value for value in values if not any(_same(value, other) for other in refused)]
        if left and len(left) < len(values):
            yield name, _among(left)


def _comparable(values: list[Any]) -> bool:
    return all(type(value) in (str, int, float, bool) for value in values)


def _numeric(name: str, good: list[dict[str, Any]]) -> bool:
    return all(number_at(params, name) is not None for params in good)


def _several(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if len(found) > _FEW:
            break
        if not any(_same(value, other) for other in found):
            found.append(value)
    return sorted(found, key=lambda value: (type(value).__name__, value))


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _among(values: list[Any]) -> dict[str, Any]:
    return {"eq": values[0]} if len(values) == 1 else {"one_of": values}


def _within(values: list[Any], share: Fraction) -> dict[str, Any]:
    """Bound a number by the least and a quantile of what was approved."""
    place = max(-(-share.numerator * len(values) // share.denominator) - 1, 0)
    return {"ge": values[0], "le": values[place]}


# The text of a rule -------------------------------------------------------------------------------------------------


def rule_text(tool: str, agent: str, where: dict[str, Any]) -> str:
    """Return a rule as an operator's file has it, to be pasted before the rules that ask.

    >>> print(rule_text("pay", "desk", {"amount": {"ge": 1, "le": 50}}), end="")
    [[rules]]
    action = "allow"
    tool = "pay"
    agent = "desk"
    where = { amount = { ge = 1, le = 50 } }
    """
    lines = ["[[rules]]", 'action = "allow"', f"tool = {_text(tool)}", f"agent = {_text(agent)}"]
    return "\n".join([*lines, f"where = {_value(where)}"]) + "\n"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, cast("list[Any]", value))) + "]"
    if isinstance(value, dict):
        members = [f"{_key(name)} = {_value(each)}" for name, each in cast("dict[str, Any]", value).items()]
        return "{ " + ", ".join(members) + " }"
    return repr(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
