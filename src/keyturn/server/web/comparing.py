"""The fields of a grant form: for each argument how it is compared, and with what, for those who write no JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from ...core.errors import BadJson, UserError
from ...core.predicates.predicate import compared_secret
from ...core.strict import parse
from ...core.values import is_number
from ...presenting.grant_words import COMPARISONS
from ...presenting.shown_request import ShownRequest
from ...render.arguments import is_text, shown_name

_TEXTS = ("eq", "ne", "one_of")
_NUMBERS = ("eq", "le", "ge", "lt", "gt")
_CHOICES = ("eq", "ne")
_HINTS = {"one_of": " (commas between)"}


class ComparedField(NamedTuple):
    """Holds one argument of a call, as a form offers to compare it."""

    name: str
    label: str
    ways: dict[str, str]
    value: str


def compared_fields(shown: ShownRequest) -> list[ComparedField]:
    """Return the arguments that a form can compare: texts of a line, numbers, true and false; nothing secret."""
    return [_field(name, value) for name, value in _comparable(shown).items()]


def _field(name: str, value: Any) -> ComparedField:
    ways = {way: f"{COMPARISONS[way]}{_HINTS.get(way, '')}" for way in _ways(value)}
    return ComparedField(name, shown_name(name), ways, value if isinstance(value, str) else json.dumps(value))


def compared_in(shown: ShownRequest, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the condition that somebody filled in, or raise `UserError` where it says nothing."""
    made: dict[str, Any] = {}
    for name, value in _comparable(shown).items():
        way, typed = form.get(f"way.{name}", ""), form.get(f"value.{name}", "").strip()
        if not way:
            continue
        if way not in _ways(value):
            raise UserError(f"{shown_name(name)}: choose how it is compared")
        made[name] = {way: _typed(name, value, way, typed)}
    if not made:
        raise UserError("fill in a condition for one argument or more; for all calls, choose any arguments")
    return made


def _comparable(shown: ShownRequest) -> dict[str, Any]:
    given: Any = shown.true_arguments
    if not isinstance(given, dict):
        return {}
    named, secrets = cast("dict[str, Any]", given), shown.item.request.secrets
    offered = {name: value for name, value in named.items() if compared_secret([name], secrets) is None}
    return {name: value for name, value in offered.items() if _ways(value) and not is_text(value)}


def _ways(value: object) -> tuple[str, ...]:
    if isinstance(value, bool):
        return _CHOICES
    return _NUMBERS if is_number(value) else _TEXTS if isinstance(value, str) else ()


def _typed(name: str, value: object, way: str, typed: str) -> Any:
    """Return what was typed as a value of the argument's own type."""
    if isinstance(value, str):
        return [each.strip() for each in typed.split(",") if each.strip()] if way == "one_of" else typed
    try:
        read: Any = parse(typed)
    except BadJson:
        read = None
    if isinstance(value, bool) != isinstance(read, bool) or not (isinstance(read, bool) or is_number(read)):
        raise UserError(f"{shown_name(name)}: enter {'true or false' if isinstance(value, bool) else 'a number'}")
    return read
