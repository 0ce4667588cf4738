"""Read a paused state of openai-agents, in the one version that is known here, and refuse whatever is not.

Names and shapes only: what is believed of it, and what becomes of it, is in `taking_over.py`. A field that nobody knows
is refused by its name, so that nothing is dropped that a later version of that SDK came to need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...core.digest import canonical
from ...core.errors import BadJson, StateRejected
from ...core.items import Item, wrong_in_kept
from ...core.strict import TextLimits, parse

VERSION = "1.21"
_VERSION_KEY = "$schemaVersion"
# Where a context keeps what was decided.
_DECIDED = ("approvals", "function_tool_approvals", "hosted_mcp_approvals")
_SAVE_AGAIN = "load it with openai-agents 0.24 and save it again"


class KnownFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of what is read: every field of it is known."""


class AgentRef(KnownFields, frozen=True):
    """Names an agent; `identity` stands where several are called alike."""

    name: str
    identity: str | None = None


class SavedUsage(KnownFields, frozen=True):
    """Counts what models used."""

    requests: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: list[dict[str, int | None]] = []
    output_tokens_details: list[dict[str, int | None]] = []
    request_usage_entries: list[Any] = []


class SavedReply(KnownFields, frozen=True):
    """Holds a reply of a model."""

    usage: SavedUsage
    output: list[Item]
    response_id: str | None = None
    request_id: str | None = None


class SavedItem(KnownFields, frozen=True):
    """Holds an item that the run made."""

    type: str
    raw_item: Item
    agent: AgentRef
    output: Any = None
    source_agent: AgentRef | None = None
    target_agent: AgentRef | None = None
    input_id: str | None = None
    tool_name: str | None = None
    tool_namespace: str | None = None
    tool_lookup_key: Any = None
    allow_bare_name_alias: bool = False
    description: str | None = None
    title: str | None = None
    tool_origin: Any = None
    custom_data: Any = None


class SavedDecisions(KnownFields, frozen=True):
    """Holds what was decided of a tool's calls: of these, or of all where it is True."""

    approved: bool | list[str] = False
    rejected: bool | list[str] = False
    rejection_messages: dict[str, str] = {}
    sticky_rejection_message: str | None = None
    sticky_scope: str | None = None


class OwnedWords(KnownFields, frozen=True):
    """Holds what was decided of a function tool of one agent."""

    agent: AgentRef
    tool_key: str
    decision: SavedDecisions


class HostedName(KnownFields, frozen=True):
    """Names a tool of a hosted server, or a request of it."""

    type: str
    server_label: str | None = None
    tool_name: str | None = None
    request_id: str | None = None


class HostedWords(KnownFields, frozen=True):
    """Holds what was decided of a hosted server's tool."""

    identity: HostedName
    decision: SavedDecisions


class Invocation(KnownFields, frozen=True):
    """Says how far a call came: `completed` with its result, or `executed` and nobody recorded what became of it."""

    type: str
    approval_scope: str
    fingerprint: str
    executed: bool
    completed: bool


class SavedContext(KnownFields, frozen=True):
    """Holds the caller's context, what was decided and how far the calls came."""

    usage: SavedUsage
    context: Any
    context_meta: dict[str, Any]
    approvals: dict[str, SavedDecisions] = {}
    tool_invocations: dict[str, Invocation] = {}
    tool_input: Any = None
    hosted_mcp_approvals: list[HostedWords] = []
    function_tool_approvals: list[OwnedWords] = []


class Interruption(KnownFields, frozen=True):
    """Holds the calls that wait, those of nested agents included."""

    interruptions: list[SavedItem]
    response_accepted: bool = False
    llm_end_hooks_started: bool = False


class SavedStep(KnownFields, frozen=True):
    """Says what comes next."""

    type: str
    data: Interruption | None = None


class FunctionEntry(KnownFields, frozen=True):
    """Holds a call of a function tool, what its tool was, and the state of the agent that answers it."""

    tool_call: Item
    tool: dict[str, Any]
    agent_run_state: SavedState | None = None


class Processed(KnownFields, frozen=True):
    """Holds what the last reply asks for."""

    new_items: list[SavedItem]
    tools_used: list[str]
    interruptions: list[SavedItem]
    functions: list[FunctionEntry] = []
    computer_actions: list[Any] = []
    custom_tool_actions: list[Any] = []
    local_shell_actions: list[Any] = []
    shell_actions: list[Any] = []
    apply_patch_actions: list[Any] = []
    handoffs: list[Any] = []
    mcp_approval_requests: list[Any] = []
    mcp_tool_bindings: dict[str, list[Any]] = {}
    tool_output_guardrail_result_start: int | None = None


class SavedReport(msgspec.Struct, frozen=True):
    """Holds what one guardrail said; the rest of it is not used."""

    output: dict[str, Any] | None = None
    guardrail: dict[str, Any] | None = None


class SavedState(KnownFields, frozen=True, rename={"version": _VERSION_KEY}):
    """Holds a state as it was saved.

    What can be derived of the rest is read and not used.
    """

    version: str
    current_turn: int
    current_agent: AgentRef
    original_input: str | list[Item]
    model_responses: list[SavedReply]
    context: SavedContext
    max_turns: int | None
    generated_items: list[SavedItem]
    session_items: list[SavedItem]
    current_step: SavedStep | None
    last_processed_response: Processed | None
    pending_input: str | list[Item] = []
    tool_use_tracker: dict[str, list[str]] = {}
    no_active_agent_run: bool = True
    input_guardrail_results: list[SavedReport] = []
    output_guardrail_results: list[SavedReport] = []
    tool_input_guardrail_results: list[SavedReport] = []
    tool_output_guardrail_results: list[SavedReport] = []
    conversation_id: str | None = None
    previous_response_id: str | None = None
    auto_previous_response_id: bool = False
    generated_prompt_cache_key: str | None = None
    reasoning_item_id_policy: str | None = None
    nested_history_owned_session_item_refs: list[Any] = []
    generated_session_item_indexes: list[Any] | None = None
    current_response_generated_item_ownership: Any = None
    last_model_response: Any = None
    current_turn_persisted_item_count: int = 0
    pending_session_write: Any = None
    terminal_unrecoverable: bool = False
    trace: dict[str, Any] | None = None
    sandbox: Any = None

    @property
    def waiting(self) -> list[SavedItem]:
        """Return the calls that wait, those of nested agents included."""
        step = self.current_step
        return [] if step is None or step.data is None else step.data.interruptions


def read_state(data: Mapping[str, Any] | str, max_bytes: int) -> tuple[SavedState, str]:
    """Read a state, and return it with a text that names it and its copies, or raise `StateRejected`."""
    limits = TextLimits(bytes=max_bytes, depth=256)
    try:
        given: Any = parse(data, limits) if isinstance(data, str) else parse(canonical(dict(data)), limits)
        name = canonical(_undecided(given))
    except BadJson as error:
        raise StateRejected(f"the state of openai-agents is {error}; use it as it was saved") from None
    _check_version(given)
    try:
        saved = msgspec.convert(given, type=SavedState)
        _check_items(saved)
    except (msgspec.ValidationError, ValueError) as error:
        raise StateRejected(
            f"the state of openai-agents is not as version {VERSION} has it, and nothing of it was taken over: {error}"
        ) from None
    return saved, name


def _check_items(saved: SavedState) -> None:
    """Raise `ValueError` for an item of the state, or of one nested in it, that cannot be read."""
    entries = [] if saved.last_processed_response is None else saved.last_processed_response.functions
    items = [raw for reply in saved.model_responses for raw in reply.output]
    items += [item.raw_item for item in (*saved.generated_items, *saved.session_items, *saved.waiting)]
    items += [entry.tool_call for entry in entries]
    for given in (saved.original_input, saved.pending_input):
        items += [] if isinstance(given, str) else given
    wrong = next((why for item in items if (why := wrong_in_kept(item)) is not None), None)
    if wrong is not None:
        raise ValueError(f"an item {wrong}")
    for entry in entries:
        if entry.agent_run_state is not None:
            _check_items(entry.agent_run_state)


def _undecided(value: object) -> Any:
    """Return a state without what was decided on it, and without what was decided on the states nested in it."""
    if isinstance(value, list):
        return [_undecided(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    state = cast("dict[str, Any]", value)
    bare = {name: _undecided(each) for name, each in state.items()}
    context = bare.get("context") if _VERSION_KEY in bare else None
    if isinstance(context, dict):
        told = cast("dict[str, Any]", context)
        bare["context"] = {name: each for name, each in told.items() if name not in _DECIDED}
    return bare


def _check_version(given: object) -> None:
    version: Any = cast("dict[str, Any]", given).get(_VERSION_KEY) if isinstance(given, dict) else None
    if version is None:
        raise StateRejected(
            f"this is no state of openai-agents: it has no {_VERSION_KEY!r}; load a state of Keyturn with from_json"
        )
    if version != VERSION:
        raise StateRejected(
            f"states of openai-agents are taken over in version {VERSION}, and this one is of another; {_SAVE_AGAIN}"
        )
