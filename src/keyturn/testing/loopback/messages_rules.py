"""Check requests as the Messages API does: turns that alternate, results right behind their calls, thoughts unchanged.

The words of the refusals are the real one's, because people search for them. Signatures carry all that is needed to
check them: here is no HTTP and nothing is kept.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

Block = dict[str, Any]

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_THINKING = ("thinking", "redacted_thinking")


class MessagesRefused(Exception):
    """Raised with what the API says to a request that it does not accept."""


def signature(text: str, nonce: str) -> str:
    """Make a thought's signature: different each time, and of this text only."""
    mac = hashlib.sha256(f"loopback {nonce} {text}".encode()).digest()
    return base64.b64encode(nonce.encode() + b" " + mac * 3).decode()


def seal(data: str) -> str:
    """Make a thought that nobody may read."""
    return "sealed+/" + base64.b64encode(data.encode()).decode()


def check_request(body: Any) -> None:
    """Refuse what the API would refuse."""
    for name in ("model", "max_tokens", "messages"):
        if not body.get(name):
            raise MessagesRefused(f"{name}: Field required")
    told = [_in_blocks(message) for message in body["messages"]]
    body = {**body, "messages": told}
    if told[0]["role"] != "user":
        raise MessagesRefused('messages: first message must use the "user" role')
    for number, message in enumerate(told):
        # The real one joins neighbours of one role. A member that counts on it is careless, so here they are refused.
        if number and message["role"] == told[number - 1]["role"]:
            raise MessagesRefused(f'messages.{number}: roles must alternate between "user" and "assistant"')
        for place, block in enumerate(message["content"]):
            _check_block(f"messages.{number}.content.{place}", block)
    _check_calls(told)
    _check_tools(body)
    _check_thinking(body)
    config: Block = body.get("output_config") or {}
    if "format" in config:
        _check_schema(config["format"]["schema"])


def _in_blocks(message: Block) -> Block:
    """Normalise a message: one text says the same as a list with a block of it."""
    content = message["content"]
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def _check_block(place: str, block: Block) -> None:
    kind = block["type"]
    if kind == "text" and not block["text"].strip():
        raise MessagesRefused(f"{place}: text content blocks must contain non-whitespace text")
    if kind == "tool_use" and not isinstance(block["input"], dict):
        raise MessagesRefused(f"{place}.tool_use.input: Input should be a valid dictionary")
    if kind == "tool_use" and not _ID.fullmatch(block["id"]):
        raise MessagesRefused(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if kind == "thinking" and not _signed(block):
        raise MessagesRefused(f"{place}: Invalid `signature` in `thinking` block")
    if kind == "redacted_thinking" and not block["data"].startswith("sealed+/"):
        raise MessagesRefused(f"{place}: Invalid `data` in `redacted_thinking` block")


def _signed(block: Block) -> bool:
    try:
        nonce, _, _ = base64.b64decode(block["signature"], validate=True).partition(b" ")
        return signature(block["thinking"], nonce.decode()) == block["signature"]
    except ValueError:
        return False


def _check_calls(told: list[Block]) -> None:
    used: set[str] = set()
    waiting: list[str] = []
    end: Block = {"content": []}
    for number, message in enumerate([*told, end]):
        results = {block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"}
        missing = [label for label in waiting if label not in results]
        if missing:
            raise MessagesRefused(
                f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        _check_results(number, message["content"], waiting)
        waiting = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if used & {*waiting} or len({*waiting}) < len(waiting):
            raise MessagesRefused(f"messages.{number}: `tool_use` ids must be unique")
        used |= {*waiting}


def _check_results(number: int, blocks: list[Block], calls: list[str]) -> None:
    seen_other = False
    for place, block in enumerate(blocks):
        if block["type"] != "tool_result":
            seen_other = True
        elif block["tool_use_id"] not in calls:
            raise MessagesRefused(
                f"messages.{number}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding `tool_use` block in the "
                "previous message."
            )
        elif seen_other:
            raise MessagesRefused(f"messages.{number}: `tool_result` blocks must come first in the message")


def _check_tools(body: Mapping[str, Any]) -> None:
    tools: list[Block] = body.get("tools") or []
    names: list[str] = [tool["name"] for tool in tools]
    if len({*names}) < len(names):
        raise MessagesRefused("tools: Tool names must be unique.")
    for tool in tools:
        if "type" not in tool and tool["input_schema"].get("type") != "object":
            raise MessagesRefused(f"tools.{tool['name']}.input_schema.type: Field required")
    blocks = (block["type"] for message in body["messages"] for block in message["content"])
    if not tools and "tool_use" in blocks:
        raise MessagesRefused("Requests which include `tool_use` or `tool_result` blocks must define tools")
    choice = body.get("tool_choice")
    if choice and not tools:
        raise MessagesRefused("tool_choice: may only be specified while providing tools")
    if choice and choice["type"] == "tool" and choice["name"] not in names:
        raise MessagesRefused(f"Tool '{choice['name']}' not found in provided tools")


def _check_thinking(body: Mapping[str, Any]) -> None:
    told: list[list[Block]] = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    if any(blocks[-1]["type"] in _THINKING for blocks in told):
        raise MessagesRefused("The final block in an assistant message cannot be `thinking`.")
    thinking: Block = body.get("thinking") or {"type": "disabled"}
    choice: Block = body.get("tool_choice") or {}
    if thinking["type"] == "disabled":
        return
    if choice.get("type") in ("any", "tool"):
        raise MessagesRefused("Thinking may not be enabled when tool_choice forces tool use.")
    if body.get("temperature", 1) != 1:
        raise MessagesRefused("`temperature` may only be set to 1 when thinking is enabled.")
    if thinking["type"] != "enabled":
        return
    if not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
        raise MessagesRefused("`max_tokens` must be greater than `thinking.budget_tokens`")
    last = told[-1] if told else []
    if any(block["type"] == "tool_use" for block in last) and last[0]["type"] not in _THINKING:
        raise MessagesRefused(
            f"Expected `thinking` or `redacted_thinking`, but found `{last[0]['type']}`. When `thinking` is enabled, "
            "a final `assistant` message must start with a thinking block"
        )


def _check_schema(schema: object) -> None:
    """Check every object in a schema, wherever it stands."""
    if isinstance(schema, list):
        for each in cast("list[Any]", schema):
            _check_schema(each)
    if not isinstance(schema, dict):
        return
    here = cast("Block", schema)
    if here.get("type") == "object" and here.get("additionalProperties") is not False:
        raise MessagesRefused(
            "output_config.format.schema: For 'object' type, 'additionalProperties' must be set to false"
        )
    for inner in here.values():
        _check_schema(inner)
