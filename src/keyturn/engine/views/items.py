"""Make the items that a run produced: the objects users read, one small class per kind.

Items are a view of the log made when somebody looks. They never feed back into the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast

from ...core.encodable import moment
from ...core.errors import KeyturnError
from ...core.items import Item, RawItem, own_copy
from ...core.preview import Preview
from ...core.request import Request, own_preview
from ...models.base import ReplyItem

_NOTHING = Request("", "", "", "approval", "", "", "", moment(0))


@dataclass(eq=False, repr=False, slots=True)
class RunItemBase:
    """Holds one item of a run: who made it, and the item as it travels.

    >>> ReasoningItem(agent=None, raw_item={"type": "reasoning"}).to_input_item()
    {'type': 'reasoning'}
    """

    agent: Any
    raw_item: Any

    def __post_init__(self) -> None:
        if type(self.raw_item) in (dict, RawItem):
            self.raw_item = ReplyItem(own_copy(cast("Item", self.raw_item)))

    def to_input_item(self) -> Item:
        """Return the item as a plain dict of the Responses input format."""
        return own_copy(dict(self.raw_item))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(agent={getattr(self.agent, 'name', None)!r}, raw_item={dict(self.raw_item)!r})"


@dataclass(eq=False, repr=False, slots=True)
class MessageOutputItem(RunItemBase):
    """Holds a message of the model.

    >>> MessageOutputItem(None, {"role": "assistant", "content": "hi"}).type
    'message_output_item'
    """

    type: Literal["message_output_item"] = "message_output_item"


@dataclass(eq=False, repr=False, slots=True)
class ReasoningItem(RunItemBase):
    """Holds a reasoning item, kept exactly as the provider sent it.

    >>> ReasoningItem(None, {"type": "reasoning"}).type
    'reasoning_item'
    """

    type: Literal["reasoning_item"] = "reasoning_item"


@dataclass(eq=False, repr=False, slots=True)
class ToolCallItem(RunItemBase):
    """Holds a call the model made.

    >>> ToolCallItem(None, {"type": "function_call", "name": "pay"}).tool_name
    'pay'
    """

    type: Literal["tool_call_item"] = "tool_call_item"

    @property
    def tool_name(self) -> str | None:
        """Return the name the model used."""
        return self.raw_item.get("name")

    @property
    def call_id(self) -> str | None:
        """Return the provider's label of the call."""
        return self.raw_item.get("call_id") or self.raw_item.get("id")


@dataclass(eq=False, repr=False, slots=True)
class ToolCallOutputItem(RunItemBase):
    """Holds a call's result.

    `output` is what the tool returned, as far as a log can hold it.

    >>> ToolCallOutputItem(None, {"type": "function_call_output"}, output=3).output
    3
    """

    type: Literal["tool_call_output_item"] = "tool_call_output_item"
    output: Any = None

    @property
    def call_id(self) -> str | None:
        """Return the provider's label of the call."""
        return self.raw_item.get("call_id")


@dataclass(eq=False, repr=False, slots=True)
class HandoffCallItem(RunItemBase):
    """Holds the model's request to hand the conversation to another agent.

    >>> HandoffCallItem(None, {"type": "function_call"}).type
    'handoff_call_item'
    """

    type: Literal["handoff_call_item"] = "handoff_call_item"


@dataclass(eq=False, repr=False, slots=True)
class HandoffOutputItem(RunItemBase):
    """Says that the conversation was handed over.

    >>> HandoffOutputItem(None, {}, source_agent="a", target_agent="b").target_agent
    'b'
    """

    type: Literal["handoff_output_item"] = "handoff_output_item"
    source_agent: Any = None
    target_agent: Any = None


@dataclass(eq=False, repr=False, slots=True)
class AddedInputItem(RunItemBase):
    """Holds a message that was added while the run went on, which the model reads.

    >>> AddedInputItem(None, {"role": "user", "content": "and hurry"}).type
    'input_item'
    """

    type: Literal["input_item"] = "input_item"


#: The same under the name that programs of the OpenAI Agents SDK know.
InputItem = AddedInputItem


@dataclass(eq=False, repr=False, slots=True)
class MCPApprovalRequestItem(RunItemBase):
    """Holds the request of a hosted MCP server to run a tool.

    >>> MCPApprovalRequestItem(None, {"type": "mcp_approval_request"}).type
    'mcp_approval_request_item'
    """

    type: Literal["mcp_approval_request_item"] = "mcp_approval_request_item"


@dataclass(eq=False, repr=False, slots=True)
class MCPApprovalResponseItem(RunItemBase):
    """Holds the answer to a hosted MCP server.

    >>> MCPApprovalResponseItem(None, {"type": "mcp_approval_response"}).type
    'mcp_approval_response_item'
    """

    type: Literal["mcp_approval_response_item"] = "mcp_approval_response_item"

    @property
    def call_id(self) -> str | None:
        """Return the id of the request that it answers."""
        return self.raw_item.get("approval_request_id")


@dataclass(eq=False, repr=False, slots=True)
class MCPListToolsItem(RunItemBase):
    """Holds a hosted MCP server's list of tools.

    >>> MCPListToolsItem(None, {"type": "mcp_list_tools"}).type
    'mcp_list_tools_item'
    """

    type: Literal["mcp_list_tools_item"] = "mcp_list_tools_item"


@dataclass(eq=False, repr=False, slots=True)
class ToolSearchCallItem(RunItemBase):
    """The provider searched for tools that were not loaded yet.

    >>> ToolSearchCallItem(None, {"type": "tool_search_call"}).type
    'tool_search_call_item'
    """

    type: Literal["tool_search_call_item"] = "tool_search_call_item"


@dataclass(eq=False, repr=False, slots=True)
class ToolSearchOutputItem(RunItemBase):
    """The tools that the provider found.

    >>> ToolSearchOutputItem(None, {"type": "tool_search_output"}).type
    'tool_search_output_item'
    """

    type: Literal["tool_search_output_item"] = "tool_search_output_item"


@dataclass(eq=False, repr=False, slots=True)
class CompactionItem(RunItemBase):
    """The provider put the conversation so far into one item, which stands for it from here on.

    >>> CompactionItem(None, {"type": "compaction"}).type
    'compaction_item'
    """

    type: Literal["compaction_item"] = "compaction_item"


@dataclass(eq=False, repr=False, slots=True)
class ToolApprovalItem(RunItemBase):
    """Holds a call that waits for somebody: a `Request`, with the agent at hand and the model's own item.

    `kind` is "approval", "in_doubt", or "external" where the tool needs an answer to `requests`. `params` is what
    will run; `arguments` is the model's own text of it where the two are the same.

    >>> ToolApprovalItem(None, {"name": "pay", "call_id": "c1", "arguments": "{}"}).call_id
    'c1'
    """

    raw_item: Any = None
    tool_name: str | None = None
    type: Literal["tool_approval_item"] = "tool_approval_item"
    tool_namespace: str | None = None
    request: Request = field(default=_NOTHING, repr=False)
    text: str | None = None
    tool: Any = field(default=None, repr=False)

    @property
    def name(self) -> str | None:
        """Return the tool's name."""
        return self.tool_name or self.raw_item.get("name")

    @property
    def qualified_name(self) -> str | None:
        """Return the tool's name with the namespace or server it belongs to."""
        return f"{self.tool_namespace}.{self.name}" if self.tool_namespace else self.name

    @property
    def arguments(self) -> str | None:
        """Return the text of the arguments that will run; what the tool marks as secret is redacted."""
        if isinstance(self.params, str):  # they are a text, and no JSON
            return self.params
        hidden = self.text is None or bool(self.request.secrets)
        return self.raw_item.get("arguments") if hidden else self.text

    @property
    def call_id(self) -> str | None:
        """Return the provider's label of the call; a label only, providers repeat them."""
        return self.raw_item.get("call_id") or self.raw_item.get("id")

    @property
    def params(self) -> Any:
        """Return what will run; what the tool marks as secret is redacted."""
        return own_copy(self.request.params)

    @property
    def reason(self) -> str:
        """Return why it asks."""
        return self.request.reason

    @property
    def digest(self) -> str:
        """Return what a decision is bound to."""
        return self.request.digest

    @property
    def revision(self) -> int:
        """Return how often it was asked."""
        return self.request.revision

    @property
    def kind(self) -> str:
        """Return what is waited for."""
        return self.request.kind

    @property
    def call(self) -> str:
        """Return the id of the call in its run."""
        return self.request.call

    @property
    def request_id(self) -> str:
        """Return the unguessable id of the request."""
        return self.request.id

    @property
    def run_id(self) -> str:
        """Return the id of the run."""
        return self.request.run

    @property
    def expires_at(self) -> datetime | None:
        """Return when a decision comes too late."""
        return self.request.expires_at

    @property
    def difference(self) -> Any:
        """Return the tool as it was and as it is, where it changed since it was shown."""
        return own_copy(self.request.difference)

    @property
    def preview(self) -> Preview:
        """Return what people are shown."""
        return own_preview(self.request.preview)

    @property
    def requests(self) -> Any:
        """Return what the tool asks, where it needs an answer."""
        return own_copy(self.request.requests)

    def to_input_item(self) -> Item:
        raise KeyturnError("a pending approval is not part of the model's input; decide it and resume the run")


#: Each kind of item: when `item.type` was compared, a type checker knows the class.
RunItem = (
    MessageOutputItem
    | ReasoningItem
    | ToolCallItem
    | ToolCallOutputItem
    | HandoffCallItem
    | HandoffOutputItem
    | AddedInputItem
    | MCPApprovalRequestItem
    | MCPApprovalResponseItem
    | MCPListToolsItem
    | ToolSearchCallItem
    | ToolSearchOutputItem
    | CompactionItem
    | ToolApprovalItem
)

_CLASSES: dict[str, Callable[[Any, Any], RunItem]] = {
    "message": MessageOutputItem,
    "reasoning": ReasoningItem,
    "mcp_approval_request": MCPApprovalRequestItem,
    "mcp_approval_response": MCPApprovalResponseItem,
    "mcp_list_tools": MCPListToolsItem,
    "tool_search_call": ToolSearchCallItem,
    "tool_search_output": ToolSearchOutputItem,
    "compaction": CompactionItem,
}


def reply_item(agent: object, raw: Item, *, handoff: bool = False) -> RunItem:
    """Make the item of an item of a model's reply."""
    made = _CLASSES.get(raw.get("type", "message"))
    if made is not None:
        return made(agent, raw)
    return HandoffCallItem(agent, raw) if handoff else ToolCallItem(agent, raw)


def result_item(agent: object, raw: Item, output: object) -> RunItem:
    """Make the item of a call's result."""
    made = _CLASSES.get(str(raw.get("type")))
    return made(agent, raw) if made is not None else ToolCallOutputItem(agent, raw, output=output)


def added_item(agent: object, raw: Item) -> RunItem:
    """Make the item of an added message, from the user or in the agent's name."""
    return reply_item(agent, raw) if raw.get("role") == "assistant" else AddedInputItem(agent, raw)
