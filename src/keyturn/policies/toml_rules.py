"""Read rules from plain data, as an operator's file holds it, and write them as such a file.

What is unknown is refused with its place. Reading and writing keep the same rules: `from_toml(policy.to_toml())` has
those of the policy. TOML has no null, so `given = true` and `given = false` stand for what `{"ne": None}` and
`{"eq": None}` say in Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from ..core.approval import Approval
from ..core.errors import UserError
from ..core.policy import Action, Verdict
from ..core.predicates.predicate import check_where
from . import presets
from .breaker import Breaker
from .limits import Budget, Calls, Rejections
from .rule import Limit, Rule
from .toml_lines import Misplaced

T = TypeVar("T")

_POLICY_KEYS = ("default", "shadow", "extends", "rules")
_RULE_KEYS = (
    *("action", "tool", "agent", "kind", "where", "risk", "read_only"),
    *("over", "reason", "approval", "stop", "review"),
)
_TERM_KEYS = tuple(name for name in Approval.__struct_fields__ if name != "then")  # a file says it by steps
_LIMITS: dict[str, tuple[Callable[..., Limit], str, tuple[str, ...]]] = {
    "calls": (Calls, "most", ("per", "of", "name")),
    "budget": (Budget, "argument", ("most", "per", "of", "name")),
    "rejections": (Rejections, "most", ("same",)),
    "breaker": (Breaker, "most", ("per", "after", "of", "name")),
}
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class PolicyParts(NamedTuple):
    """Holds what a file says."""

    rules: list[Rule]
    default: Verdict | Action | None
    shadow: bool


# Reading ------------------------------------------------------------------------------------------------------------


def read_policy(data: Mapping[str, Any]) -> PolicyParts:
    """Read a policy from plain data; those of a preset that it extends come after its own rules."""
    known = _known(data, _POLICY_KEYS, 0)
    rules: object = known.get("rules", [])
    if not isinstance(rules, list):
        raise Misplaced("rules must be a list", key="rules")
    made = [_rule(rule, number) for number, rule in enumerate(cast("list[object]", rules), 1)]
    default = known.get("default")
    if default is not None and default not in ("allow", "ask", "deny"):
        raise Misplaced(f"default is 'allow', 'ask' or 'deny', not {default!r}", key="default")
    if not isinstance(known.get("shadow", False), bool):
        raise Misplaced("shadow must be true or false", key="shadow")
    if "extends" in known:
        more, beyond = _preset(known["extends"])
        made, default = [*made, *more], default if "default" in known else beyond
    if not made and default is None:
        raise Misplaced("it has neither rules nor a default: it would decide no call")
    return PolicyParts(made, default, known.get("shadow", False))


def _preset(name: object) -> tuple[Sequence[Rule], Action | None]:
    made = presets.NAMED.get(name) if isinstance(name, str) else None
    if made is None:
        raise Misplaced(f"extends is one of {', '.join(presets.NAMED)}; not {name!r}", key="extends")
    return made


def _rule(data: object, number: int) -> Rule:
    known = _known(data, _RULE_KEYS, number)
    if "action" not in known:
        raise Misplaced("action is missing; it is allow, ask or deny", number)
    if "approval" in known:
        known["approval"] = _terms(known["approval"], number)
    if "over" in known:
        known["over"] = _limit(known["over"], number)
    if "where" in known:
        known["where"] = _made(number, "where", lambda: _where(known["where"]))
    return _made(number, "", lambda: Rule(**known))


def _terms(data: object, number: int) -> Approval:
    """Read the terms of an approval; those of a chain are a list of such tables."""
    terms = _known(data, _TERM_KEYS, number, "approval")
    steps: object = terms.get("steps")
    if isinstance(steps, list):
        terms["steps"] = [_terms(step, number) for step in cast("list[object]", steps)]
    return _made(number, "approval", lambda: Approval(**terms))


def _where(data: object) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise UserError("a predicate maps the names of arguments to what they must be")
    where = {name: _condition(name, each) for name, each in cast("Mapping[str, Any]", data).items()}
    check_where(where)
    return where


def _condition(name: str, condition: object) -> Any:
    said: dict[str, Any] = dict(cast("Mapping[str, Any]", condition)) if isinstance(condition, Mapping) else {}
    if "given" not in said:
        return cast("Any", condition)
    given = said.pop("given")
    operator = "ne" if given is True else "eq"
    if not isinstance(given, bool) or operator in said:
        raise UserError(f"given on {name!r} is true or false, and stands without {operator!r}")
    return {**said, operator: None}


def _limit(data: object, number: int) -> Limit:
    named = [name for name in _LIMITS if isinstance(data, dict) and name in data]
    if len(named) != 1:
        raise Misplaced(f"this is a table with one of {', '.join(_LIMITS)}", number, "over", "over")
    made, first, others = _LIMITS[named[0]]
    known = _known(cast("object", data), (named[0], *others), number, "over")
    known[first] = known.pop(named[0])
    if made is Breaker and "per" not in known:
        raise Misplaced("per is missing; it is within which time the breaker counts", number, "over", "over")
    if "most" in others and "most" not in known:
        raise Misplaced("most is missing; it is what the budget may come to", number, "over", "over")
    return _made(number, "over", lambda: made(**known))


def _known(data: object, keys: tuple[str, ...], number: int, inside: str = "") -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise Misplaced(f"this is a table of {', '.join(keys)}", number, inside, inside)
    for key in cast("Mapping[object, Any]", data):
        if key not in keys:
            raise Misplaced(f"unknown key {key!r}; use {', '.join(keys)}", number, str(key), inside)
    return dict(cast("Mapping[str, Any]", data))


def _made(number: int, key: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except (UserError, TypeError) as error:
        said = str(error)
        named = key or next((each for each in _RULE_KEYS if said.startswith((f"{each} ", f"{each}="))), "")
        raise Misplaced(said, number, named, "" if key == "where" else key) from None


# Writing ------------------------------------------------------------------------------------------------------------


def written(rules: Sequence[Rule], default: Verdict | None, *, shadow: bool) -> str:
    """Write a policy as an operator's file; what no file can say is refused."""
    head = dict[str, Any]()
    if default is not None:
        if msgspec.structs.replace(default, by="") != Verdict(default.action):
            raise UserError("a default with a reason or with terms has no place in a file; write it as the last rule")
        head["default"] = default.action
    if shadow:
        head["shadow"] = True
    parts = ["".join(f"{key} = {_value(value)}\n" for key, value in head.items())]
    for number, rule in enumerate(rules, 1):
        try:
            parts.append("[[rules]]\n" + "".join(f"{key} = {_value(each)}\n" for key, each in _of_rule(rule).items()))
        except UserError as error:
            raise UserError(f"rule {number} cannot be written to a file: {error}") from None
    return "\n".join(part for part in parts if part)


def _of_rule(rule: Rule) -> dict[str, Any]:
    if rule.when is not None:
        raise UserError("its when= is a function")
    made = {name: getattr(rule, name) for name in _RULE_KEYS if getattr(rule, name) not in (None, "", False, 0.0)}
    if rule.read_only is False:
        made["read_only"] = False
    if rule.where is not None:
        made["where"] = {name: _plain_condition(each) for name, each in rule.where.items()}
    if rule.over is not None:
        made["over"] = _of_limit(rule.over)
    if rule.approval is not None:
        steps = [msgspec.to_builtins(step) for step in rule.approval.in_turn]
        made["approval"] = {"steps": steps} if len(steps) > 1 else steps[0]
    return made


def _of_limit(limit: Limit) -> dict[str, Any]:
    word, (_, first, others) = next(each for each in _LIMITS.items() if each[1][0] is type(limit))
    more = {name: getattr(limit, name) for name in others}
    given = {name: each for name, each in more.items() if each is not None and (name, each) != ("of", "run")}
    return {word: getattr(limit, first), **given}


def _plain_condition(condition: object) -> Any:
    if condition is None:
        return {"given": False}
    if not isinstance(condition, Mapping):
        return condition
    said, given = dict(cast("Mapping[str, Any]", condition)), dict[str, Any]()
    for operator, meant in (("eq", False), ("ne", True)):
        if operator in said and said[operator] is None:
            if given:
                raise UserError("a condition asks for what is given and for what is not")
            del said[operator]
            given["given"] = meant
    return {**said, **given}


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, Mapping):
        members = [f"{_key(name)} = {_value(each)}" for name, each in cast("Mapping[str, Any]", value).items()]
        return "{ " + ", ".join(members) + " }" if members else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, cast("list[Any]", value))) + "]"
    raise UserError("a file has no null" if value is None else f"a file has no {type(value).__name__}")


def _decimal(value: Decimal) -> str:
    if Fraction(repr(float(value))) != Fraction(value):
        raise UserError(f"the number {value} has more digits than a file keeps")
    return repr(float(value))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UserError("a text holds half a character") from None
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
