"""Keyturn: the model turns one key, a person turns the other.

An agent runtime in which any tool call can wait for a person, for seconds or weeks, and nothing is lost, doubled or
smuggled through while it waits. This module only names what is public; each name is imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Agent": "agents.agent",
    "AgentBase": "agents.agent",
    "AgentHookContext": "agents.context",
    "AgentHooks": "agents.hooks",
    "AgentMissing": "core.errors",
    "AgentOutputSchema": "agents.output",
    "AgentOutputSchemaBase": "agents.output",
    "AgentUpdatedStreamEvent": "engine.feed",
    "AgentsException": "core.errors",
    "AnthropicModel": "models.anthropic",
    "Approval": "core.policy",
    "ApprovalRequestedStreamEvent": "engine.feed",
    "BadJson": "core.errors",
    "CallModelData": "agents.settings",
    "CallView": "core.policy",
    "Command": "core.preview",
    "Conflict": "core.errors",
    "Diff": "core.preview",
    "EncryptedSession": "sessions.encrypted",
    "Expired": "core.errors",
    "FallbackModel": "models.fallback",
    "FunctionTool": "tools.function",
    "FunctionToolResult": "agents.agent",
    "GoogleModel": "models.google",
    "Grant": "policies.grants",
    "GuardrailFunctionOutput": "agents.guardrail",
    "Handoff": "agents.handoff",
    "HandoffCallItem": "engine.items",
    "HandoffInputData": "agents.handoff",
    "HandoffOutputItem": "engine.items",
    "InputGuardrail": "agents.guardrail",
    "InputGuardrailResult": "agents.guardrail",
    "InputGuardrailTripwireTriggered": "core.errors",
    "InvalidArguments": "tools.base",
    "ItemHelpers": "engine.items",
    "Journal": "journal.base",
    "Json": "core.preview",
    "KeyturnError": "core.errors",
    "MCPApprovalRequestItem": "engine.items",
    "MCPApprovalResponseItem": "engine.items",
    "MCPListToolsItem": "engine.items",
    "MaxTurnsExceeded": "core.errors",
    "MemoryJournal": "journal.memory",
    "MemorySession": "sessions.memory",
    "MessageOutputItem": "engine.items",
    "Model": "models.base",
    "ModelBehaviorError": "core.errors",
    "ModelInputData": "agents.settings",
    "ModelProvider": "models.base",
    "ModelRefusalError": "core.errors",
    "ModelResponse": "models.base",
    "ModelSettings": "models.base",
    "MultiProvider": "models.routing",
    "NotPending": "core.errors",
    "OpenAIChatCompletionsModel": "models.openai_chat",
    "OpenAIConversationsSession": "sessions.conversations",
    "OpenAIProvider": "models.openai_provider",
    "OpenAIResponsesModel": "models.openai_responses",
    "OutputGuardrail": "agents.guardrail",
    "OutputGuardrailResult": "agents.guardrail",
    "OutputGuardrailTripwireTriggered": "core.errors",
    "Policy": "policies.rules",
    "Preview": "core.preview",
    "RawResponsesStreamEvent": "engine.feed",
    "ReasoningItem": "engine.items",
    "Rule": "policies.rules",
    "RunConfig": "agents.settings",
    "RunContextWrapper": "agents.context",
    "RunErrorHandlerInput": "agents.settings",
    "RunErrorHandlerResult": "agents.settings",
    "RunHooks": "agents.hooks",
    "RunItem": "engine.items",
    "RunItemStreamEvent": "engine.feed",
    "RunResult": "engine.result",
    "RunResultStreaming": "engine.stream",
    "RunState": "engine.state",
    "Runner": "engine.runner",
    "SQLAlchemySession": "sessions.sqlalchemy",
    "SQLiteSession": "sessions.sqlite",
    "Secret": "tools.schema",
    "Session": "sessions.base",
    "SessionABC": "sessions.base",
    "SessionSettings": "sessions.base",
    "StateRejected": "core.errors",
    "StopAtTools": "agents.agent",
    "StreamEvent": "engine.feed",
    "Text": "core.preview",
    "Tool": "tools.base",
    "ToolApprovalItem": "engine.items",
    "ToolCallItem": "engine.items",
    "ToolCallOutputItem": "engine.items",
    "ToolChanged": "core.errors",
    "ToolContext": "agents.context",
    "ToolErrorFormatterArgs": "agents.settings",
    "ToolExecutionConfig": "agents.settings",
    "ToolGuardrailFunctionOutput": "agents.tool_guardrail",
    "ToolInputGuardrail": "agents.tool_guardrail",
    "ToolInputGuardrailData": "agents.tool_guardrail",
    "ToolInputGuardrailResult": "agents.tool_guardrail",
    "ToolInputGuardrailTripwireTriggered": "core.errors",
    "ToolMissing": "core.errors",
    "ToolOutputFileContent": "tools.outputs",
    "ToolOutputGuardrail": "agents.tool_guardrail",
    "ToolOutputGuardrailData": "agents.tool_guardrail",
    "ToolOutputGuardrailResult": "agents.tool_guardrail",
    "ToolOutputGuardrailTripwireTriggered": "core.errors",
    "ToolOutputImage": "tools.outputs",
    "ToolOutputText": "tools.outputs",
    "ToolTimeoutError": "core.errors",
    "ToolsToFinalOutputResult": "agents.agent",
    "Usage": "models.base",
    "UserError": "core.errors",
    "Verdict": "core.policy",
    "default_tool_error_function": "tools.function",
    "function_tool": "tools.function",
    "handoff": "agents.handoff",
    "input_guardrail": "agents.guardrail",
    "output_guardrail": "agents.guardrail",
    "set_default_openai_api": "models.defaults",
    "set_default_openai_client": "models.defaults",
    "set_default_openai_key": "models.defaults",
    "tool_input_guardrail": "agents.tool_guardrail",
    "tool_output_guardrail": "agents.tool_guardrail",
}

# Modules that are reached as attributes too: `keyturn.console.decide(result)`.
_MODULES = ("console", "decorators", "testing")

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]  # the table is the list; the stub spells it out


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
