"""A table of the actions of a computer and their fields, and the parser of a call's actions.

Fields that nobody here knows are left out of an action, so that what is shown is what is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..core.items import Item
from ..core.values import is_whole
from .base import InvalidArguments

_BUTTONS = ("left", "right", "wheel", "back", "forward")


def _text(value: object) -> bool:
    return isinstance(value, str)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in cast("list[Any]", value))


def _path(value: object) -> bool:
    return isinstance(value, list) and all(_is_point(entry) for entry in cast("list[Any]", value))


def _is_point(value: object) -> bool:
    point = cast("Item", value) if isinstance(value, dict) else {}
    return point.keys() == {"x", "y"} and is_whole(point["x"]) and is_whole(point["y"])


_PLACE: dict[str, Callable[[Any], bool]] = {"x": is_whole, "y": is_whole}
_NEEDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "click": {**_PLACE, "button": _BUTTONS.__contains__},
    "double_click": _PLACE,
    "drag": {"path": _path},
    "keypress": {"keys": _texts},
    "move": _PLACE,
    "screenshot": {},
    "scroll": {**_PLACE, "scroll_x": is_whole, "scroll_y": is_whole},
    "type": {"text": _text},
    "wait": {},
}
_HOLDS_KEYS = ("click", "double_click", "drag", "move", "scroll")


def read_actions(given: object) -> list[Item]:
    """Parse the actions of a call, or raise `InvalidArguments`.

    >>> read_actions([{"type": "type", "text": "hello", "mood": "good"}])
    [{'type': 'type', 'text': 'hello'}]
    """
    if not isinstance(given, list) or not given:
        raise InvalidArguments("The call is invalid: it has no action.")
    return [_read(action, place) for place, action in enumerate(cast("list[Any]", given), 1)]


def _read(given: object, place: int) -> Item:
    action = cast("Item", given) if isinstance(given, dict) else {}
    kind = action.get("type")
    needs = _NEEDS.get(kind) if isinstance(kind, str) else None
    if needs is None:
        raise InvalidArguments(f"The call is invalid: action {place} is none of {', '.join(_NEEDS)}.")
    for name, fits in needs.items():
        if not fits(action.get(name)):
            raise InvalidArguments(f"The call is invalid: action {place}, a {kind}, needs a proper {name}.")
    made: Item = {"type": kind, **{name: action[name] for name in needs}}
    if kind in _HOLDS_KEYS and action.get("keys"):
        if not _texts(action["keys"]):
            raise InvalidArguments(f"The call is invalid: the keys of action {place} are not a list of keys.")
        made["keys"] = action["keys"]
    return made
