"""Read items, calls and counts of a state of openai-agents, one reply at a time; nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...core import events as ev
from ...core.digest import canonical
from ...core.errors import BadJson, StateRejected
from ...core.items import Item
from ...core.strict import parse
from ...core.usage import Counts
from ...engine.facts.proposals import call_label
from ...engine.run.frame_settings import Toolset
from ...tools.base import InvalidArguments, Tool, tool_digest
from .saved_state import SavedItem, SavedReport, SavedState, SavedUsage

# An item that stands for a wait and is no part of the conversation.
WAITS = "tool_approval_item"
_RESULTS = ("tool_call_output_item", "handoff_output_item", "mcp_approval_response_item")
# What may differ between two tellings of one item.
_EPHEMERAL = ("status", "provider_data")


def label_of(raw: Mapping[str, Any]) -> str:
    """Return the provider's id of a call."""
    return str(raw.get("call_id") or raw.get("id"))


def key_of(raw: Mapping[str, Any]) -> str:
    """Return a text that two tellings of one item share."""
    return canonical({name: value for name, value in raw.items() if name not in _EPHEMERAL})


def alike(raw: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two calls are of one tool."""
    return all(raw.get(name) == other.get(name) for name in ("type", "name", "server_label"))


def all_items(saved: SavedState) -> list[SavedItem]:
    """Return all items in their order: those that a handoff's filter left out stand in the session's list only."""
    kept = {key_of(item.raw_item) for item in saved.session_items}
    others = [item for item in saved.generated_items if key_of(item.raw_item) not in kept]
    items = [item for item in [*saved.session_items, *others] if item.type != WAITS]
    custom = next((item for item in items if item.custom_data), None)
    if custom is not None:
        raise StateRejected(
            f"the state's items have custom_data, of {custom.tool_name or custom.type!r}: results carry none here; "
            "finish this run there, or take custom_data out of the state"
        )
    return items


def is_result(item: SavedItem, label: str) -> bool:
    """Return whether an item is the result of the call of that label."""
    raw = item.raw_item
    return item.type in _RESULTS and label in (raw.get("call_id"), raw.get("approval_request_id"))


def without_twins(output: list[Item]) -> list[Item]:
    """Return a reply's items, without a call that it tells twice; two calls of one id are refused."""
    seen: dict[str, Any] = {}
    kept: list[Item] = []
    for raw in output:
        label = raw.get("call_id")
        if isinstance(label, str) and not str(raw.get("type")).endswith("_output"):
            told = {name: value for name, value in raw.items() if name not in ("id", *_EPHEMERAL)}
            if label in seen and seen[label] != told:
                raise StateRejected("the state holds a reply with two different calls of one id")
            if label in seen:
                continue
            seen[label] = told
        kept.append(raw)
    return kept


def calls_in(output: list[Item], toolset: Toolset, known: Callable[[str], bool]) -> list[tuple[int, Item]]:
    """Return the calls that a reply leaves to be answered, with their places; not those that it answers itself."""
    answered = {raw.get("call_id") for raw in output if str(raw.get("type")).endswith("_output")} - {None}
    found: list[tuple[int, Item]] = []
    for place, raw in enumerate(output):
        if str(raw.get("type")).endswith("_output") or raw.get("call_id") in answered:
            continue
        if call_label(raw, toolset) is not None or known(label_of(raw)):
            found.append((place, raw))
    return found


def over(tool: Tool | None, raw: Item, place: tuple[str, str, int]) -> ev.Proposal:
    """Propose a call that ran already: nothing of it will run, so its tool may be gone or refuse it by now."""
    own = raw.get("arguments")
    text = None if tool is None else _prepared(tool, raw)
    if tool is None:
        return ev.Proposal("unknown", *place, args=_words_of(raw))
    return ev.Proposal(
        tool.kind,
        *place,
        tool_digest(tool, raw),
        args=_words_of(raw) if text is None else None if text == own else text,
        last=tool.after_siblings,
        risk=tool.risk,
        secrets=tool.secrets,
    )


def _prepared(tool: Tool, raw: Item) -> str | None:
    try:
        return tool.prepare(raw).text
    except (InvalidArguments, BadJson):
        return None


def _words_of(raw: Item) -> str:
    """Return a text for what a call that is over had for arguments."""
    try:
        return canonical(parse(raw["arguments"]))
    except (BadJson, KeyError, TypeError):
        said = {name: value for name, value in raw.items() if name not in ("type", "id", "call_id", "status")}
        return canonical(said)


def counts_of(usage: SavedUsage) -> Counts:
    """Return a usage as a log holds it."""
    sent = usage.input_tokens_details[0] if usage.input_tokens_details else {}
    received = usage.output_tokens_details[0] if usage.output_tokens_details else {}
    return Counts(
        usage.requests,
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        sent.get("cached_tokens") or 0,
        received.get("reasoning_tokens") or 0,
        sent.get("cache_write_tokens") or 0,
    )


def turns_left(saved: SavedState) -> int | None:
    """Return the limit of turns, counted with the replies that are replayed."""
    if saved.max_turns is None:
        return None
    return max(saved.max_turns - saved.current_turn, 0) + len(saved.model_responses)


def reports_of(saved: SavedState) -> list[ev.Report]:
    """Return what guardrails said; a run that one of them stopped is refused."""
    found: list[ev.Report] = []
    for stage in ("input", "output", "tool_input", "tool_output"):
        results: list[SavedReport] = getattr(saved, f"{stage}_guardrail_results")
        for result in results:
            said, name = result.output or {}, str((result.guardrail or {}).get("name"))
            if said.get("tripwireTriggered"):
                raise StateRejected(f"guardrail {name!r} stopped this run, which requires no decision")
            found.append(ev.Report(name, stage, info=said.get("outputInfo")))
    return found
