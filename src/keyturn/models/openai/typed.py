"""Make an item of a reply an object of the SDK's own class, for programs that ask `isinstance`.

The SDK is imported when that is asked for, and not before. Nothing of ours reads what is made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from ...core.errors import UserError
from ...core.items import own_copy


def sdk_item(item: Mapping[str, Any]) -> Any:
    """Return a copy of an item as an object of the SDK; the item itself where the SDK has no class for its type.

    >>> type(sdk_item({"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"})).__name__
    'ResponseFunctionToolCall'
    """
    fields: dict[str, Any] = {"type": "message", **own_copy(dict(item))}
    made = _classes().get(fields["type"])
    if made is None:
        return item
    if fields["type"] == "message" and isinstance(fields.get("content"), str):
        fields["content"] = [{"type": "output_text", "text": fields["content"], "annotations": []}]
    return made.model_construct(**fields)  # the SDK's own way: what its types do not foresee is kept as it came


@cache
def _classes() -> dict[str, Any]:
    """Return the SDK's class for each type of item."""
    try:
        from openai.types.responses import ResponseOutputItem
    except ImportError:
        raise UserError(
            "typed() makes objects of the OpenAI SDK, which is not installed: pip install 'keyturn[openai]', or read "
            "the item by its keys and attributes"
        ) from None
    classes: tuple[Any, ...] = get_args(get_args(ResponseOutputItem)[0])
    return {kind: each for each in classes for kind in get_args(each.model_fields["type"].annotation)}
