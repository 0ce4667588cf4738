"""Deferred tools in the way of Pydantic AI: an agent whose run returns the calls that wait, and goes on with answers.

>>> from keyturn.deferred import Agent, DeferredToolRequests
>>> from keyturn.testing import ScriptedModel
>>> Agent(ScriptedModel(["hello"]), output_type=[str, DeferredToolRequests]).run_sync("hi").output
'hello'
"""

from ..agents.limits import UsageLimits
from .agent import Agent
from .messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    messages_from_json,
    messages_to_json,
)
from .requests import (
    ApprovalRequired,
    CallDeferred,
    DeferredToolCall,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    ToolApproved,
    ToolDenied,
    ToolReturn,
    WrongResults,
)
from .result import AgentRunResult, RunUsage
from .stream import (
    AgentRunResultEvent,
    DeferredToolRequestsEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    StreamedRunResult,
    TextPartDelta,
)
from .tool import RunContext, Tool
from .toolset import ApprovalRequiredToolset, ExternalToolset, FunctionToolset, ToolDefinition

__all__ = [
    "Agent",
    "AgentRunResult",
    "AgentRunResultEvent",
    "ApprovalRequired",
    "ApprovalRequiredToolset",
    "CallDeferred",
    "DeferredToolCall",
    "DeferredToolRequests",
    "DeferredToolRequestsEvent",
    "DeferredToolResults",
    "ExternalToolset",
    "FunctionToolCallEvent",
    "FunctionToolResultEvent",
    "FunctionToolset",
    "ModelMessage",
    "ModelMessagesTypeAdapter",
    "ModelRequest",
    "ModelResponse",
    "ModelRetry",
    "PartDeltaEvent",
    "RetryPromptPart",
    "RunContext",
    "RunUsage",
    "StreamedRunResult",
    "SystemPromptPart",
    "TextPart",
    "TextPartDelta",
    "ThinkingPart",
    "Tool",
    "ToolApproved",
    "ToolCallPart",
    "ToolDefinition",
    "ToolDenied",
    "ToolReturn",
    "ToolReturnPart",
    "UsageLimits",
    "UserPromptPart",
    "WrongResults",
    "messages_from_json",
    "messages_to_json",
]
