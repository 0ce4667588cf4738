"""Look up what a state of openai-agents says was decided of a call.

A word on this very call beats one on all calls of its tool. Two words on one call are no word: the state is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from ...core.errors import StateRejected
from ...engine.states.taken_over import TakenOverDecision
from ...tools.base import Tool
from .saved_state import SavedDecisions, SavedState


class CallKey(NamedTuple):
    """Names a call as decisions do: its label, its agent, its item, and its tool's name."""

    label: str
    agent: str
    raw: Mapping[str, Any]
    tool: str

    @classmethod
    def of(cls, label: str, agent: str, raw: Mapping[str, Any], tool: Tool | None) -> CallKey:
        """Name a call of a tool that may be gone."""
        return cls(label, agent, raw, str(raw.get("name") or ("" if tool is None else tool.name)))

    @property
    def alike(self) -> tuple[Any, ...]:
        """Return what calls of one tool of one agent have in common."""
        return self.agent, self.raw.get("type"), self.raw.get("server_label"), self.tool


def word_on(saved: SavedState, call: CallKey) -> TakenOverDecision | None:
    """Return what was decided of a call, or None."""
    records = list(_records(saved, call))
    exact = {word for words in records if (word := _exact(words, call.label)) is not None}
    if len({word.verdict for word in exact}) > 1:
        raise StateRejected(f"the state both approves and rejects a call of {call.tool!r}; decide it anew there")
    standing = next((word for words in records if (word := _standing(words)) is not None), None)
    if exact:
        word = exact.pop()
        return word._replace(always=standing is not None and standing.verdict == word.verdict)
    return standing


def _exact(words: SavedDecisions, label: str) -> TakenOverDecision | None:
    approved = isinstance(words.approved, list) and label in words.approved
    rejected = isinstance(words.rejected, list) and label in words.rejected
    if approved and rejected:
        raise StateRejected("the state both approves and rejects one call; decide it anew there")
    if approved:
        return TakenOverDecision("approve")
    return TakenOverDecision("reject", message=words.rejection_messages.get(label)) if rejected else None


def _standing(words: SavedDecisions) -> TakenOverDecision | None:
    if words.approved is True and words.rejected is True:
        raise StateRejected("the state both approves and rejects all calls of one tool; decide it anew there")
    if words.approved is True:
        return TakenOverDecision("approve", always=True)
    return (
        TakenOverDecision("reject", always=True, message=words.sticky_rejection_message)
        if words.rejected is True
        else None
    )


def _records(saved: SavedState, call: CallKey) -> Iterator[SavedDecisions]:
    """Yield the records that are about a call: function tools by agent, hosted ones by server, others by name."""
    context, kind = saved.context, call.raw.get("type")
    if kind == "mcp_approval_request":
        for entry in context.hosted_mcp_approvals:
            named = entry.identity
            its_tool = (named.server_label, named.tool_name) == (call.raw.get("server_label"), call.tool)
            if its_tool if named.type == "server_tool" else named.request_id == call.label:
                yield entry.decision
    elif kind == "function_call":
        for owned in context.function_tool_approvals:
            if owned.agent.identity is None and (owned.agent.name, owned.tool_key) == (call.agent, call.tool):
                yield owned.decision
    else:
        for name in {call.tool, str(kind).removesuffix("_call")}:
            if name in context.approvals:
                yield context.approvals[name]


def for_good(saved: SavedState) -> set[str]:
    """Return the names of tools of which something was decided for good."""
    context = saved.context
    said = [(owned.tool_key, owned.decision) for owned in context.function_tool_approvals]
    said += [(str(entry.identity.tool_name), entry.decision) for entry in context.hosted_mcp_approvals]
    said += context.approvals.items()
    return {name for name, words in said if _standing(words) is not None}


def agents_at_work(saved: SavedState) -> Counter[str]:
    """Return how many runs of each agent a state holds, by the agent's name: its own, and those nested in it."""
    found = Counter([saved.current_agent.name])
    for inner in nested_states(saved).values():
        found += agents_at_work(inner)
    return found


def nested_states(saved: SavedState) -> dict[str, SavedState]:
    """Return the states of the agents that answer calls of the last reply, by the calls' labels."""
    entries = [] if saved.last_processed_response is None else saved.last_processed_response.functions
    return {
        str(entry.tool_call.get("call_id")): entry.agent_run_state
        for entry in entries
        if entry.agent_run_state is not None
    }


def tools_as_saved(saved: SavedState) -> dict[str, dict[str, Any]]:
    """Return what the tools of the last reply's calls were, by the calls' labels."""
    entries = [] if saved.last_processed_response is None else saved.last_processed_response.functions
    return {str(entry.tool_call.get("call_id")): entry.tool for entry in entries}


def has_changed(saved: Mapping[str, Any], tool: Tool) -> bool:
    """Return whether a tool is plainly another than the one that was shown: its words, or its parameters.

    The two SDKs do not word a schema alike, so that what both say is compared: the names and types of parameters.
    """
    shown: object = saved.get("paramsJsonSchema")
    now: object = getattr(tool, "params_json_schema", None)
    told = saved.get("description")
    if told and told != getattr(tool, "description", None):
        return True
    return isinstance(shown, Mapping) and isinstance(now, Mapping) and _parameters(shown) != _parameters(now)


def _parameters(schema: Any) -> dict[str, Any]:
    properties: object = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {name: _type(entry) for name, entry in cast("Mapping[str, Any]", properties).items()}


def _type(entry: object) -> Any:
    return cast("Mapping[str, Any]", entry).get("type") if isinstance(entry, Mapping) else None
