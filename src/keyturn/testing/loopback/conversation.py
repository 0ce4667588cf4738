"""Check conversations as the Responses API does: every call has its output, every output its call, nothing twice.

The words of the refusals are the real one's, because people search for them. Here is no HTTP and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.items import Item

# A call's type: the type of its output, and how the refusals name it.
_CALLS = {
    "function_call": ("function_call_output", "function call"),
    "custom_tool_call": ("custom_tool_call_output", "custom tool call"),
    "shell_call": ("shell_call_output", "shell call"),
    "local_shell_call": ("local_shell_call_output", "local shell call"),
    "apply_patch_call": ("apply_patch_call_output", "apply patch call"),
    "computer_call": ("computer_call_output", "computer call"),
}
_OUTPUTS = {output: (kind, name) for kind, (output, name) in _CALLS.items()}
_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
# Items that a model makes: what a reasoning item must be followed by.
_MADE = frozenset(
    {*_CALLS, "message", "reasoning", "web_search_call", "file_search_call", "mcp_call", "mcp_approval_request"}
)
_REQUESTS = ("mcp_approval_request", "mcp_approval_response")
_UNKNOWN = ("created_by", "provider_data", "parsed_arguments")


class ConversationRefused(Exception):
    """Raised with what the API says to a request that it does not accept."""


def check_items(before: Sequence[Item], given: Sequence[Item]) -> None:
    """Refuse what the API would refuse of new items on top of those that it has."""
    known = {item["id"] for item in before if item.get("id")}
    for index, item in enumerate(given):
        kind = item.get("type", "message")
        for name in _UNKNOWN:
            if name in item:
                raise ConversationRefused(f"Unknown parameter: 'input[{index}].{name}'.")
        item_id = item.get("id")
        if item_id is None:
            continue
        if not item_id.startswith(_PREFIXES.get(kind, "")):
            raise ConversationRefused(
                f"Invalid 'input[{index}].id': '{item_id}'. Expected an ID that begins with '{_PREFIXES[kind]}'."
            )
        if item_id in known:
            raise ConversationRefused(
                f"Duplicate item found with id {item_id}. Remove duplicate items from your input."
            )
        known.add(item_id)
    whole = [*before, *given]
    _check_reasoning(whole)
    _check_calls(whole)
    _check_approvals(whole)


def _check_reasoning(items: Sequence[Item]) -> None:
    for item, after in zip(items, [*items[1:], {}], strict=False):
        if item.get("type") == "reasoning" and not _made(after):
            raise ConversationRefused(
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
            )


def _made(item: Mapping[str, object]) -> bool:
    return item.get("role") == "assistant" or item.get("type") in _MADE - {"message"}


def _check_calls(items: Sequence[Item]) -> None:
    waiting: dict[tuple[str, str], str] = {}
    for item in items:
        kind = item.get("type", "message")
        if kind in _CALLS:
            waiting[_CALLS[kind][0], item["call_id"]] = _CALLS[kind][1]
        elif kind in _OUTPUTS:
            label = item.get("call_id") or item["id"]  # a local shell's output has the call's id as its own
            if waiting.pop((kind, label), None) is None:
                raise ConversationRefused(f"No tool call found for {_OUTPUTS[kind][1]} output with call_id {label}.")
    for (_, label), name in waiting.items():
        raise ConversationRefused(f"No tool output found for {name} {label}.")


def _check_approvals(items: Sequence[Item]) -> None:
    """Check that each answer has its request, and that no safety check is passed over."""
    request, response = _REQUESTS
    waiting: set[str] = set()
    checks: dict[str, set[str]] = {}
    for item in items:
        kind = item.get("type")
        if kind == request:
            waiting.add(item["id"])
        elif kind == response and item["approval_request_id"] not in waiting:
            raise ConversationRefused(f"No approval request found for id {item['approval_request_id']}.")
        elif kind == response:
            waiting.discard(item["approval_request_id"])
        elif kind == "computer_call":
            checks[item["call_id"]] = {check["id"] for check in item.get("pending_safety_checks") or ()}
        elif kind == "computer_call_output":
            said = {check["id"] for check in item.get("acknowledged_safety_checks") or ()}
            left = sorted(checks.get(item["call_id"], set()) - said)
            if left:
                raise ConversationRefused(f"Computer tool has unacknowledged safety check for {left}")
    if waiting:
        raise ConversationRefused(f"No approval response found for approval request {min(waiting)}.")
