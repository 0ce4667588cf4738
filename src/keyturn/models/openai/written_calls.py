"""Recognize a call that a model wrote into its text, where its server found none.

Open models write calls in markup of their own, and a server that does not know it passes it on as an answer. Such a
text becomes no call that could run: the reply gets a call whose arguments are that text, as a JSON string, so that
every tool refuses them and the model reads why. Only a tool that was offered is meant. Markup of a call is one wherever
it is; JSON or Python only where it is the whole text, since an answer that mentions a call is an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from uuid import uuid4

from ...core.items import Item, message_text

_NAME = r"(?:functions\.)?([\w.:-]+)"
_QUOTED = rf"""["']{_NAME}["']"""
# No two quantifiers here share characters, unless the first gives none back: a text of spaces is read once.
# The beginning of a call in JSON: its name, and then its arguments.
_JSON = (
    rf"""\{{\s*(?:["']type["']\s*:\s*["']function["']\s*,\s*)?["']name["']\s*:\s*{_QUOTED}\s*,\s*"""
    r"""["'](?:arguments|parameters|args|params)["']\s*:"""
)
_FENCE = r"\s*+(?:```(?:\w++(?![.:(-]))?+\s*+)?+(?:\[\s*+)?+"
_WHOLE = re.compile(rf"{_FENCE}{_JSON}.*[\]}}][\s`;]*\Z|{_FENCE}{_NAME}\([^\n]*[)\]][\s`;]*\Z", re.DOTALL)
_MARKED = re.compile(
    "|".join(
        (
            rf"<tool_call>\s*{_JSON}",  # Qwen, Hermes
            rf"<function={_NAME}",  # Qwen Coder, Llama
            rf"\[TOOL_CALLS\]\s*+(?:\[\s*+)?+(?:{_JSON}|{_NAME})",  # Mistral
            rf"<\|python_(?:tag|start)\|>\s*(?:{_JSON}|{_NAME}\()",  # Llama
            rf"<\uff5ctool\u2581sep\uff5c>{_NAME}",  # DeepSeek
            rf"<\uff5cDSML\uff5cinvoke name={_QUOTED}",
            rf"commentary to=functions\.{_NAME}",  # gpt-oss
            rf"<\|tool_call(?:_start)?\|?>\s*\[?(?:call:)?{_NAME}",  # LFM, Gemma
        )
    )
)


class Offered(NamedTuple):
    """Holds what a request asked for: the functions that it offered, and whether the answer is to be data.

    Of data only markup is a call: JSON is the answer.
    """

    names: frozenset[str] = frozenset()
    data: bool = False

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Offered:
        """Return what this request to Chat Completions asked for."""
        if body.get("tool_choice") == "none":
            return cls()
        tools = cast("list[Item]", body.get("tools") or [])
        names = (tool["function"]["name"] for tool in tools if tool.get("type") == "function")
        return cls(frozenset(names), bool(body.get("response_format")))


def written_call(items: list[Item], asked: Offered) -> Item | None:
    """Return a call that no tool takes for the one in the text of a reply without calls; None where there is none.

    >>> said = {"type": "message", "role": "assistant", "content": "pay(amount=1)"}
    >>> call = written_call([said], Offered(frozenset({"pay"})))
    >>> call["name"], call["arguments"]
    ('pay', '"pay(amount=1)"')
    """
    if not asked.names or any(item["type"] not in ("message", "reasoning") for item in items):
        return None
    text = "".join(message_text(item) for item in items if item["type"] == "message")
    name = _called(text, data=asked.data)
    if name not in asked.names:
        return None
    label = f"call_{uuid4().hex[:24]}"
    return {"type": "function_call", "call_id": label, "name": name, "arguments": json.dumps(text, ensure_ascii=False)}


def _called(text: str, *, data: bool) -> str | None:
    found = _MARKED.search(text) or (None if data else _WHOLE.match(text))
    return None if found is None else next(filter(None, found.groups()), None)
