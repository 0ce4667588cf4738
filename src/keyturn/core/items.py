"""Conversation items: the plain dicts that models, sessions and logs exchange.

An item is one entry of a conversation in the Responses input format. It is data and nothing else:
no agent, no tool, no behaviour. `RawItem` lets the same dict be read in both habits that users
bring, `item["arguments"]` and `item.arguments`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

Item = dict[str, Any]


class RawItem(dict[str, Any]):
    """A dict whose keys can also be read as attributes, all the way down.

    >>> item = RawItem(type="function_call", action={"commands": ["ls"]})
    >>> item["type"] == item.type and item.action.commands == ["ls"]
    True
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            value = self[name]
        except KeyError:
            raise AttributeError(name) from None
        return _readable(value)

    def model_dump(self, **_options: Any) -> dict[str, Any]:
        """The plain dict, for code that expects a pydantic object."""
        return dict(self)


_kind: Callable[[object], object] = type
_CONTAINERS: frozenset[object] = frozenset({dict, list, RawItem})


def own_copy(value: Any) -> Any:
    """A JSON value that shares no dict and no list with `value`: whoever is handed it may edit it.

    >>> given = {"action": {"commands": ["ls"]}}
    >>> own_copy(given)["action"]["commands"] is given["action"]["commands"]
    False
    """
    if type(value) is list:
        return [own_copy(part) for part in cast("list[Any]", value)]
    if type(value) not in _CONTAINERS:
        return value
    made = dict(cast("Item", value))
    if not _CONTAINERS.isdisjoint(map(_kind, made.values())):  # most items are flat, and one is copied for each call
        for name, part in made.items():
            made[name] = own_copy(part)
    return made


def _readable(value: Any) -> Any:
    if type(value) is dict:
        return RawItem(cast("dict[str, Any]", value))
    if type(value) is list:
        return [_readable(entry) for entry in cast("list[Any]", value)]
    return value


def plain_item(item: Any) -> Item:
    """An item as a plain dict, whether it came as a mapping or as a provider SDK's object."""
    if type(item) is dict:
        return cast("Item", item)
    if isinstance(item, Mapping):
        return dict(cast("Mapping[str, Any]", item))
    dump = getattr(item, "model_dump", None)
    if dump is not None:
        # SDKs hold what their types do not foresee, and pydantic would warn of each such value.
        return cast("Item", dump(mode="json", exclude_unset=True, by_alias=True, warnings=False))
    raise TypeError(f"a conversation item must be a mapping, not {type(item).__name__}")


def input_items(given: str | list[Any]) -> list[Item]:
    """What a caller passes as input, as a list of items.

    >>> input_items("hi")
    [{'role': 'user', 'content': 'hi'}]
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [plain_item(item) for item in given]


def as_given(items: list[Item]) -> str | list[Item]:
    """What `input_items` made, as a caller would have passed it: the text where there is nothing else.

    >>> as_given([{"role": "user", "content": "hi"}])
    'hi'
    """
    if len(items) == 1 and items[0].keys() == {"role", "content"} and items[0]["role"] == "user":
        content = items[0]["content"]
        return content if isinstance(content, str) else items
    return items


def message_text(item: Mapping[str, Any]) -> str:
    """The text of an assistant message, "" for every other item."""
    content = item.get("content")
    if item.get("type", "message") != "message" or item.get("role") != "assistant":
        return ""
    if isinstance(content, str):
        return content
    parts = cast("list[dict[str, Any]]", content or [])
    return "".join(part.get("text") or "" for part in parts if part.get("type") in ("output_text", "text"))


def refusal_text(item: Mapping[str, Any]) -> str:
    """The refusal inside an assistant message, "" where there is none."""
    content = item.get("content")
    if not isinstance(content, list):
        return ""
    parts = cast("list[dict[str, Any]]", content)
    return "".join(part.get("refusal") or "" for part in parts if part.get("type") == "refusal")


def wrong_in(item: Mapping[str, Any]) -> str | None:
    """Why nobody can read this item of a reply, None where it can be read. Only what every reader relies on is asked.

    >>> wrong_in({"type": "message", "content": [{"type": "output_text", "text": 5}]})
    "is a message with a part whose 'text' is no text"
    """
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        return "has a type that is no text"
    content = item.get("content")
    if kind != "message" or isinstance(content, str):
        return None
    if not isinstance(content, list):
        return "is a message without content"
    return next((wrong for part in cast("list[Any]", content) if (wrong := _wrong_part(part))), None)


def _wrong_part(part: Any) -> str | None:
    if not isinstance(part, Mapping):
        return "is a message with a part that is no object"
    said = cast("Mapping[str, Any]", part)
    wrong = [name for name in ("text", "refusal") if not isinstance(said.get(name), str | None)]
    return f"is a message with a part whose {wrong[0]!r} is no text" if wrong else None
