"""Show items of a conversation: what was said in it, and calls without what their tools mark as secret.

A run may begin with a conversation of another run. Which of its agents' tools marks what as secret is recorded as it
starts; of a call of any other tool no argument is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias, cast

from .digest import canonical
from .items import Item
from .preview import REDACTED, hidden_text, redact
from .run import Call

#: What a run's `about` calls the parameters that its tools mark as secret.
SECRETS = "secrets"
Secrets: TypeAlias = Mapping[str, Collection[str]]
_SAID = ("message", "reasoning", "compaction", "item_reference")
# What says which call it is, and of which tool; nothing of it is an argument.
_NAMES = ("type", "id", "call_id", "name", "namespace", "server_label", "status")
_NOTHING: tuple[object, ...] = (None, "", "{}", {}, [])


def tool_key(item: Item) -> str:
    """Return by which name the secrets of a call's tool are known: its server's, its own, or the type of its calls.

    >>> tool_key({"type": "function_call", "name": "pay"}), tool_key({"type": "radio_call"})
    ('pay', 'radio_call')
    """
    names = (item.get(name) for name in ("server_label", "name", "type"))
    return next((name for name in names if isinstance(name, str) and name), "")


def is_call(item: Item) -> bool:
    """Return whether an item is a call, or asks for an approval of one."""
    kind = str(item.get("type", ""))
    if kind in _SAID or kind.endswith(("_output", "_response")):
        return False
    return "arguments" in item or item.get("call_id") is not None or kind.endswith("_request")


def shown_item(item: Item, secrets: Secrets, *, others: bool = False) -> Item:
    """Return an item as people are shown it; `others` says whether calls of tools that are not known are shown whole.

    >>> shown_item({"type": "function_call", "name": "log_in", "arguments": '{"key":"s3"}'}, {"log_in": ["key"]})
    {'type': 'function_call', 'name': 'log_in', 'arguments': '{"key":"[redacted]"}'}
    """
    if not is_call(item):
        return item
    hidden = secrets.get(tool_key(item))
    if not hidden and (others or hidden is not None):
        return item
    return {name: value if name in _NAMES else _hidden(name, value, hidden) for name, value in item.items()}


def _hidden(name: str, value: object, hidden: Collection[str] | None) -> object:
    if value in _NOTHING:
        return value
    if name == "arguments" and isinstance(value, str) and hidden is not None:
        return hidden_text(value, hidden)
    return REDACTED


def shown_input(given: str | list[Any], secrets: Secrets) -> str | list[Any]:
    """Return what a run was given as people are shown it."""
    if isinstance(given, str):
        return given
    return [shown_item(cast("Item", item), secrets) if isinstance(item, dict) else item for item in given]


def hides(items: Iterable[Any], secrets: Secrets, *, others: bool = False) -> bool:
    """Return whether something of a conversation's items is not shown.

    >>> hides([{"role": "user", "content": "hi"}], {}), hides([{"type": "radio_call", "wave": 9, "call_id": "c"}], {})
    (False, True)
    """
    whole = [cast("Item", item) for item in items if isinstance(item, dict)]
    return any(shown_item(item, secrets, others=others) != item for item in whole)


def shown_call(call: Call) -> Item:
    """Return the model's own item of a call, without what the tool marked as secret."""
    if not call.proposal.secrets:
        return call.raw
    item = {**call.raw, "arguments": canonical(redact(call.params, call.proposal.secrets))}
    return shown_item(item, {tool_key(item): call.proposal.secrets})
