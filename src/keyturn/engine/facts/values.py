"""Turn Python values into the facts that a log can hold."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import msgspec

from ...core.digest import canonical
from ...core.errors import BadJson, UserError
from ...core.items import Item, input_items, own_copy
from ...core.people import plain_text
from ...core.strict import TextLimits, parse
from ...support.user_code import run_callback
from ..logger import error_words, logger

_ROOM = TextLimits(bytes=64 << 20)  # what people say has the room of a state
_MOST = 1 << 20  # a tool's value beyond that is not kept beside its text, which is cut in plain sight


def checked_items(given: str | list[Any]) -> list[Item]:
    """Return a caller's input as items that a log can hold and nobody else has, or raise `UserError`."""
    try:
        items = input_items(given)
        _check_no_approval(items)
        msgspec.json.encode(items)
        return own_copy(items)
    except UnicodeEncodeError:  # half a character: the log knows what to do with it
        return own_copy(input_items(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"the input must be a text or a list of JSON items: {error}") from None


def _check_no_approval(items: list[Item]) -> None:
    """Refuse an approval of a provider's call that the conversation does not show as answered: the gate approves calls.

    >>> _check_no_approval([{"type": "mcp_approval_response", "approval_request_id": "r1", "approve": False}])
    """
    asked = {item.get("id"): item for item in items if str(item.get("type")).endswith("_approval_request")}
    for place, item in enumerate(items):
        if not str(item.get("type")).endswith("_approval_response") or item.get("approve") is False:
            continue
        request = asked.get(item.get("approval_request_id"), {})
        if not any(_answers(request, later) for later in items[place:]):
            raise UserError(
                "the input approves a call of a hosted MCP server: leave the mcp_approval_response out, and the call "
                "is an interruption that RunState.approve or the inbox decides"
            )


def _answers(request: Item, item: Item) -> bool:
    """Return whether an item came after the provider had an approval: the call, or what the model said of it."""
    if item.get("role") == "assistant":
        return True
    names = ("server_label", "name")
    return item.get("type") == "mcp_call" and all(item.get(name) == request.get(name, ...) for name in names)


def said_items(given: str | list[Any]) -> list[Item]:
    """Return an added message as items; raise `UserError` where no log can hold it exactly."""
    if isinstance(given, str):
        plain_text(given, "a message")
    items = checked_items(given)
    _check_exact(items, "a message")
    return items


def said_output(value: object, what: str) -> Any:
    """Return the result that somebody gives for a call: a text, or a value that is exact JSON.

    Nothing is replaced here. What a person said must be what the model reads, or be refused while they are there.
    """
    if isinstance(value, str):
        return plain_text(value, what)
    if value is None or isinstance(value, bool):
        return value
    try:
        made: Any = msgspec.to_builtins(_dumped(value))
    except Exception as error:  # whatever an object raises that is dumped
        raise UserError(f"{what} is a text or JSON, not {type(value).__name__} ({type(error).__name__})") from None
    made = _listed(made)
    _check_exact(made, what)
    return made


def _check_exact(value: object, what: str) -> None:
    try:
        parse(canonical(value), _ROOM)
    except BadJson as error:
        raise UserError(f"{what} must be JSON that every reader reads alike: {error.reason}") from None


def jsonable(value: object) -> Any:
    """Convert a value to JSON, as faithfully as possible; what JSON cannot hold becomes its text."""
    if value is None or isinstance(value, str | bool):
        return value
    try:
        return msgspec.json.decode(_text(value))
    except Exception as error:  # whatever a user's object raises while it is dumped, the fact is still recorded
        logger.debug("a %s is recorded by the name of its type: %s", type(value).__name__, error_words(error))
        return f"<{type(value).__name__}>"


def kept(value: object) -> Any:
    """Return a value as JSON to record beside its text; None where JSON cannot hold it or it is too large."""
    if value is None or isinstance(value, str):
        return None
    try:
        text = _text(value)
        return msgspec.json.decode(text) if len(text) <= _MOST else None
    except Exception as error:  # whatever a user's object raises while it is dumped: its text stands for it
        logger.debug("a %s is recorded as text only: %s", type(value).__name__, error_words(error))
        return None


def _text(value: object) -> bytes:
    return msgspec.json.encode(_dumped(value))


def _dumped(value: object) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return run_callback(dump, mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return run_callback(dataclasses.asdict, cast("Any", value))
    return value


def _listed(value: object) -> Any:
    """Return the same value with lists where it has tuples, as a log would give it back."""
    if isinstance(value, list | tuple):
        return [_listed(part) for part in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _listed(part) for name, part in cast("dict[Any, Any]", value).items()}
    return value
