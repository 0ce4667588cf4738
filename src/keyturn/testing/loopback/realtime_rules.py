"""What OpenAI's realtime protocol allows in both directions, judged by the types of the `openai` package.

The package's classes keep fields that they do not know. The real server refuses those, and so does `client_fault`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast, get_args


class BadClientMessage(Exception):
    """Says what is wrong with a client message, as the server's `error` event says it."""

    def __init__(self, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


def check_client(message: Any) -> dict[str, Any]:
    """Return a client message that the protocol allows; raise a `BadClientMessage` where it does not."""
    if not isinstance(message, dict) or not isinstance(cast("Any", message).get("type"), str):
        raise BadClientMessage("The message must be an object with a type.", "invalid_json")
    told = cast("dict[str, Any]", message)
    made = _classes("RealtimeClientEvent").get(told["type"])
    if made is None:
        raise BadClientMessage(f"Invalid value: {told['type']!r}.", "invalid_value", "type")
    try:
        checked = made.model_validate(told)
    except ValueError as error:  # pydantic's
        first = cast("Any", error).errors(include_url=False, include_input=False)[0]
        where = ".".join(str(each) for each in first["loc"])
        raise BadClientMessage(f"Invalid {where!r}: {first['msg']}", "invalid_value", where) from None
    for extra in _extras(checked, ()):
        raise BadClientMessage(f"Unknown parameter: {extra!r}.", "unknown_parameter", extra)
    _check_session(told)
    return told


def check_server(event: Mapping[str, Any]) -> None:
    """Raise where an event of the server is not what the package's types say."""
    made = _classes("RealtimeServerEvent").get(event["type"])
    if made is None:
        raise ValueError(f"the protocol has no server event {event['type']!r}")
    extras = list(_extras(made.model_validate(event), ()))
    # A response's transcript parts and the event's own bookkeeping are all in the types; nothing else is sent.
    if extras:
        raise ValueError(f"{event['type']} has no {extras}")


def _check_session(message: Mapping[str, Any]) -> None:
    session: Any = message.get("session")
    if message["type"] != "session.update" or session is None:
        return
    if session.get("type") != "realtime":
        raise BadClientMessage("Invalid value: session.type must be 'realtime'.", "invalid_value", "session.type")
    if len(session.get("output_modalities") or ["audio"]) != 1:
        raise BadClientMessage(
            "Invalid modalities: ask for one of text and audio.", "invalid_value", "session.output_modalities"
        )


@cache
def _classes(union: str) -> dict[str, Any]:
    """Return the class of each type of event in a union of the package."""
    from openai.types import realtime

    members: tuple[Any, ...] = get_args(get_args(getattr(realtime, union))[0])
    return {kind: each for each in members for kind in get_args(each.model_fields["type"].annotation)}


def _extras(value: object, path: tuple[str, ...]) -> Iterator[str]:
    """Return the path of each field that its class does not know."""
    if isinstance(value, list):
        for number, each in enumerate(cast("list[Any]", value)):
            yield from _extras(each, (*path, str(number)))
        return
    extra: Any = getattr(value, "model_extra", None)
    if extra is None:
        return
    yield from (".".join((*path, name)) for name in extra)
    for name in cast("Any", type(value)).model_fields:
        yield from _extras(getattr(value, name), (*path, name))
