"""Make the items of a scripted conversation, and read what a request has of it.

Everything here is plain data in the Responses format. What is not given is left out, so that an item travels
exactly as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import Any, cast

from ...core.items import RawItem
from ..base import ModelRequest

_calls = count(1)
# What answers a call is an output; what answers a request for approval, a response.
_RESULTS, _REQUEST = ("_output", "_response"), "approval_request_id"


def assistant_message(text: str, *, item_id: str | None = None) -> RawItem:
    """Make a message of the model.

    >>> assistant_message("done").content[0].text
    'done'
    """
    return _said({"type": "output_text", "text": text, "annotations": []}, item_id)


def refusal(text: str, *, item_id: str | None = None) -> RawItem:
    """Make a message in which the model declines.

    >>> refusal("I cannot help with that").content[0].type
    'refusal'
    """
    return _said({"type": "refusal", "refusal": text}, item_id)


def _said(part: dict[str, Any], item_id: str | None) -> RawItem:
    item = RawItem(type="message", role="assistant", status="completed", content=[part])
    if item_id is not None:
        item["id"] = item_id
    return item


def function_call(
    name: str,
    arguments: str | Mapping[str, Any] = "{}",
    *,
    call_id: str | None = None,
    item_id: str | None = None,
    namespace: str | None = None,
) -> RawItem:
    """Make a call of a function tool; a string is sent as it stands, so that broken arguments can be scripted.

    Without a `call_id` it is the next of "call_1", "call_2", ... in this process. Give one where a test
    compares it, and in a history-driven model: a run that is resumed elsewhere would be counted anew.

    >>> function_call("pay", {"to": "ada"}, call_id="c1").arguments
    '{"to":"ada"}'
    """
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    label = f"call_{next(_calls)}" if call_id is None else call_id
    item = RawItem(type="function_call", call_id=label, name=name, arguments=arguments)
    if item_id is not None:
        item["id"] = item_id
    if namespace is not None:
        item["namespace"] = namespace
    return item


def reasoning(text: str = "", *, encrypted_content: str | None = None, item_id: str | None = None) -> RawItem:
    """Make a reasoning item: a summary, encrypted content, or both.

    >>> reasoning("The invoice is due.", encrypted_content="gAAA").summary[0].text
    'The invoice is due.'
    """
    item = RawItem(type="reasoning", summary=[{"type": "summary_text", "text": text}] if text else [])
    if encrypted_content is not None:
        item["encrypted_content"] = encrypted_content
    if item_id is not None:
        item["id"] = item_id
    return item


def tool_outputs(request: ModelRequest) -> dict[str, Any]:
    """Return the results in the conversation by call id, oldest first: how far a history-driven model has come.

    >>> from keyturn.models.base import ModelSettings
    >>> told = [{"type": "function_call_output", "call_id": "c1", "output": "paid"}]
    >>> tool_outputs(ModelRequest(None, told, ModelSettings(), [], None, []))
    {'c1': 'paid'}
    """
    given: dict[str, Any] = {}
    for item in request.input:
        if str(item.get("type")).endswith(_RESULTS) and (label := item.get("call_id") or item.get(_REQUEST)):
            given[label] = item.get("output", item.get("approve"))
    return given


def last_user_text(request: ModelRequest) -> str:
    """Return what the user said last, "" where no user spoke.

    >>> from keyturn.models.base import ModelSettings
    >>> last_user_text(ModelRequest(None, [{"role": "user", "content": "hi"}], ModelSettings(), [], None, []))
    'hi'
    """
    for item in reversed(request.input):
        if item.get("role") == "user":
            content = item.get("content") or ""
            parts = [{"text": content}] if isinstance(content, str) else cast("list[dict[str, Any]]", content)
            return "".join(part.get("text") or "" for part in parts)
    return ""
