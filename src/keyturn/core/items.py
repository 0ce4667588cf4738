"""Conversation items: the plain dicts that models, sessions and logs exchange.

An item is one entry of a conversation in the Responses input format. It is data and nothing else:
no agent, no tool, no behaviour. `RawItem` lets the same dict be read in both habits that users
bring, `item["arguments"]` and `item.arguments`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

Item = dict[str, Any]
#: The same under the names that programs of the OpenAI Agents SDK know, and what a model streams.
TResponseInputItem = Item
TResponseOutputItem = Item
TResponseStreamEvent = Any


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
        """Return the plain dict, for code that expects a pydantic object."""
        return dict(self)


_is: Callable[[object, type], bool] = isinstance
_kind: Callable[[object], object] = type
_PLAIN: frozenset[object] = frozenset({str, int, float, bool, type(None)})


def own_copy(value: Any) -> Any:
    """Return a JSON value that shares no dict and no list with `value`: whoever is handed it may edit it.

    >>> given = {"action": {"commands": ["ls"]}}
    >>> own_copy(given)["action"]["commands"] is given["action"]["commands"]
    False
    """
    kind = _kind(value)
    if kind in _PLAIN:
        return value
    if kind is dict or _is(value, dict):
        if _PLAIN.issuperset(map(type, value.values())):  # most items are flat, and several are copied in each turn
            return dict(value)
        return {name: part if type(part) in _PLAIN else own_copy(part) for name, part in value.items()}
    if _is(value, list):
        return [part if type(part) in _PLAIN else own_copy(part) for part in value]
    return value


def own_copies(items: list[Item]) -> list[Item]:
    """The same of each item of a conversation, in a third of the time that `own_copy` takes for one after the other."""
    try:
        made: list[Item] = msgspec.to_builtins(items)
        return made
    except (TypeError, ValueError, RecursionError):  # an item that is no JSON, or is nested too deep for that
        return [own_copy(item) for item in items]


def without_id(item: Item) -> Item:
    """Return an item without its id: a provider that does not keep it refuses to be reminded.

    >>> without_id({"type": "reasoning", "id": "rs_1", "summary": []})
    {'type': 'reasoning', 'summary': []}
    """
    return {name: value for name, value in item.items() if name != "id"}


def _readable(value: object) -> Any:
    if type(value) is dict:
        return RawItem(cast("dict[str, Any]", value))
    if type(value) is list:
        return [_readable(entry) for entry in cast("list[Any]", value)]
    return value


def plain_item(item: Any) -> Item:
    """Return an item as a plain dict, whether it came as a mapping or as a provider SDK's object."""
    if _kind(item) is dict:
        return item
    if isinstance(item, Mapping):
        return dict(cast("Mapping[str, Any]", item))
    dump = getattr(item, "model_dump", None)
    if dump is not None:
        # SDKs hold what their types do not foresee, and pydantic would warn of each such value.
        return cast("Item", dump(mode="json", exclude_unset=True, by_alias=True, warnings=False))
    raise TypeError(f"a conversation item must be a mapping, not {type(item).__name__}")


def texts_of(item: object) -> list[str]:
    """Return the texts of a message, one for each part that is a text; none of what is no message.

    An item may have been written by anybody: what is not as the format says is passed over.

    >>> texts_of({"role": "user", "content": [{"type": "input_text", "text": "hi"}, 5]}), texts_of({"content": 5})
    (['hi'], [])
    """
    content: object = cast("Item", item).get("content") if isinstance(item, dict) else None
    if isinstance(content, str):
        return [content]
    return [text for part in parts_in(content) if isinstance(text := part.get("text"), str)]


def parts_in(content: object) -> list[Item]:
    """Return the parts of a content that can be read.

    >>> parts_in([{"type": "refusal"}, 5]), parts_in(5)
    ([{'type': 'refusal'}], [])
    """
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return [cast("Item", part) for part in parts if isinstance(part, dict)]


def input_items(given: str | list[Any]) -> list[Item]:
    """Return what a caller passes as input, as a list of items.

    >>> input_items("hi")
    [{'role': 'user', 'content': 'hi'}]
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [plain_item(item) for item in given]


def as_given(items: list[Item]) -> str | list[Item]:
    """Return an input as a caller would have passed it: a plain text where it is nothing else.

    >>> as_given([{"role": "user", "content": "hi"}])
    'hi'
    """
    if len(items) == 1 and items[0].keys() == {"role", "content"} and items[0]["role"] == "user":
        content = items[0]["content"]
        return content if isinstance(content, str) else items
    return items


def message_text(item: Mapping[str, Any]) -> str:
    """Return the text of an assistant message, "" for every other item."""
    content = item.get("content")
    if item.get("type", "message") != "message" or item.get("role") != "assistant":
        return ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in parts_in(content) if part.get("type") in ("output_text", "text"))


def refusal_text(item: Mapping[str, Any]) -> str:
    """Return the refusal inside an assistant message, "" where there is none."""
    parts = parts_in(item.get("content"))
    return "".join(part.get("refusal") or "" for part in parts if part.get("type") == "refusal")


# How deep an item of a reply may be nested: as deep as the arguments of a call.
DEEPEST = 64
# What everybody who handles an item goes by: a text, or not there. Only a call of ours must have an id that is text.
_TEXTS = {"type": "type", "call_id": "call id", "name": "name"}
_TEXT = (str, type(None))


def wrong_in(item: Any) -> str | None:
    """Return why an item of a reply cannot be read, None where it can.

    Only what every reader relies on is checked.

    It is an object of JSON values, no deeper than 64 levels, and what it is called by is text. Half a character may
    stand where a model writes freely, as in a text that was cut; the log writes "?" for it.

    >>> wrong_in({"type": "message", "content": [{"type": "output_text", "text": 5}]})
    "is a message with a part whose 'text' is no text"
    """
    if not _is(item, dict):
        return "is no object"
    halved = None
    try:
        text = msgspec.json.encode(item)
        deep = text.count(b"{") + text.count(b"[") > DEEPEST and _deeper(item, DEEPEST)
    except UnicodeEncodeError:
        halved = _halved_name(item)
        deep = _deeper(item, DEEPEST)
    except (TypeError, ValueError, RecursionError):
        return "is nested too deep or holds what is no JSON"
    if deep:
        return f"is nested deeper than {DEEPEST} levels"
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        return "has a type that is no text"
    if not isinstance(item.get("name"), _TEXT):
        return "has a name that is no text"
    return halved or (_wrong_message(item) if kind == "message" else None)


_NAMED = ("id", "call_id", "arguments", "server_label", "approval_request_id")


def wrong_in_kept(item: Any) -> str | None:
    """Return why an item cannot be read that others recorded, None where it can: `wrong_in`, and what names a call.

    >>> wrong_in_kept({"type": "function_call", "name": "pay", "call_id": "c1", "arguments": {"amount": 5}})
    "has 'arguments' that is no text"
    """
    wrong = wrong_in(item)
    named = None if wrong else next((name for name in _NAMED if not isinstance(item.get(name), _TEXT)), None)
    return wrong if named is None else f"has {named!r} that is no text"


def _deeper(value: object, most: int) -> bool:
    """Return whether a value is nested deeper than a limit, counted level by level, at any depth."""
    level: list[Any] = [value]
    for _ in range(most):
        level = [part for held in level for part in _parts(held) if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _parts(value: object) -> Iterable[Any]:
    return cast("Mapping[str, Any]", value).values() if isinstance(value, Mapping) else cast("list[Any]", value)


def _halved_name(item: Item) -> str | None:
    asks = str(item.get("type")).endswith("_approval_request")  # what asks is known by its id
    for name, word in {**_TEXTS, "id": "id"}.items() if asks else _TEXTS.items():
        text = item.get(name)
        if isinstance(text, str) and any("\ud800" <= letter <= "\udfff" for letter in text):
            return f"has a {word} with half a character in it"
    return None


def _wrong_message(item: Item) -> str | None:
    content = item.get("content")
    if isinstance(content, str):
        return None
    if not isinstance(content, list):
        return "is a message without content"
    return next((wrong for part in cast("list[Any]", content) if (wrong := _wrong_part(part))), None)


def _wrong_part(part: object) -> str | None:
    if not isinstance(part, Mapping):
        return "is a message with a part that is no object"
    said = cast("Mapping[str, Any]", part)
    wrong = [name for name in ("text", "refusal") if not isinstance(said.get(name), _TEXT)]
    return f"is a message with a part whose {wrong[0]!r} is no text" if wrong else None


#: What the model reads before the result of a call whose arguments a person changed.
EDITED = "A person changed the arguments of this call before approving it. It ran with: "


def without_notice(text: str) -> str:
    """Return the result of an edited call as its tool gave it; the arguments in a notice have no line break.

    >>> without_notice(EDITED + '{"amount":5}\\n\\npaid 5'), without_notice("paid 5")
    ('paid 5', 'paid 5')
    """
    notice, _, result = text.partition("\n\n")
    return result if notice.startswith(EDITED) else text
