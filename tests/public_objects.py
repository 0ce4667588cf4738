"""One object of each public class whose attributes can be set or are refused: made with the options that are given."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import keyturn
import keyturn.channels
import keyturn.deep
import keyturn.deferred
import keyturn.mcp
import keyturn.realtime
import keyturn.tracing.processors
from keyturn import (
    Agent,
    App,
    ApplyPatchTool,
    Computer,
    ComputerTool,
    CustomTool,
    FunctionTool,
    Handoff,
    HostedMCPTool,
    LocalShellTool,
    MemoryJournal,
    ModelSettings,
    Policy,
    RunConfig,
    ShellTool,
    ToolGuardrailFunctionOutput,
    Workspace,
    WorkspaceEditor,
    tool_output_guardrail,
)
from keyturn.mcp import MCPServerStdio, MCPServerStreamableHttp
from keyturn.testing import ScriptedModel


async def echo(_context: Any, arguments: str) -> str:
    return arguments


def screen() -> Any:
    made = Mock(spec=Computer)
    made.environment, made.dimensions = "browser", (10, 10)
    return made


@tool_output_guardrail
def withheld(_data: Any) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.reject_content("withheld")


POLICY = Policy(keyturn.Rule("deny", risk="high"))
CONFIG = {"type": "mcp", "server_label": "wiki", "server_url": "https://example.com/mcp"}


def function(**options: Any) -> FunctionTool:
    given = {"name": "t", "description": "d", "params_json_schema": {"type": "object", "properties": {}}}
    return FunctionTool(**{**given, "on_invoke_tool": echo, **options})


def agent_tool(**options: Any) -> Any:
    agent = options.pop("agent", Agent("inner"))
    name, description = options.pop("name", "inner"), options.pop("description", "d")
    return agent.as_tool(name, description, **options)


def handed(**options: Any) -> Any:
    given = {"tool_name": "go", "tool_description": "d", "input_json_schema": {}, "agent_name": "a"}
    return Handoff(**{**given, "on_invoke_handoff": echo, **options})


def server(**options: Any) -> MCPServerStdio:
    return MCPServerStdio(**{"params": {"command": "python"}, "name": "s", **options})


def app(**options: Any) -> App:
    return App(**{"agents": [Agent("a")], "journal": MemoryJournal(), **options})


#: One object of each class that users declare, made with the options that are given.
MAKERS: dict[str, Callable[..., Any]] = {
    "Agent": lambda **o: Agent(**{"name": "a", **o}),
    "RealtimeAgent": lambda **o: keyturn.realtime.RealtimeAgent(**{"name": "a", **o}),
    "FunctionTool": function,
    "AgentTool": agent_tool,
    "Handoff": handed,
    "CustomTool": lambda **o: CustomTool(**{"name": "t", "description": "d", "on_invoke_tool": echo, **o}),
    "ShellTool": lambda **o: ShellTool(**{"executor": echo, **o}),
    "LocalShellTool": lambda **o: LocalShellTool(**{"executor": echo, **o}),
    "ApplyPatchTool": lambda **o: ApplyPatchTool(**{"editor": WorkspaceEditor("."), **o}),
    "ComputerTool": lambda **o: ComputerTool(**{"computer": screen(), **o}),
    "HostedMCPTool": lambda **o: HostedMCPTool(**{"tool_config": CONFIG, **o}),
    "WebSearchTool": keyturn.WebSearchTool,
    "FileSearchTool": lambda **o: keyturn.FileSearchTool(**{"vector_store_ids": ["v"], **o}),
    "CodeInterpreterTool": lambda **o: keyturn.CodeInterpreterTool(
        **{"tool_config": {"type": "code_interpreter", "container": "c"}, **o}
    ),
    "ImageGenerationTool": lambda **o: keyturn.ImageGenerationTool(
        **{"tool_config": {"type": "image_generation"}, **o}
    ),
    "MCPServerStdio": server,
    "MCPServerSse": lambda **o: keyturn.MCPServerSse(**{"params": {"url": "http://h/x"}, "name": "s", **o}),
    "MCPServerStreamableHttp": lambda **o: MCPServerStreamableHttp(
        **{"params": {"url": "http://h/x"}, "name": "s", **o}
    ),
    "RunConfig": RunConfig,
    "ModelSettings": ModelSettings,
    "ModelRetrySettings": keyturn.ModelRetrySettings,
    "ModelRetryBackoffSettings": keyturn.ModelRetryBackoffSettings,
    "ToolExecutionConfig": keyturn.ToolExecutionConfig,
    "InputGuardrail": lambda **o: keyturn.InputGuardrail(**{"guardrail_function": echo, **o}),
    "OutputGuardrail": lambda **o: keyturn.OutputGuardrail(**{"guardrail_function": echo, **o}),
    "ToolInputGuardrail": lambda **o: keyturn.ToolInputGuardrail(**{"guardrail_function": echo, **o}),
    "ToolOutputGuardrail": lambda **o: keyturn.ToolOutputGuardrail(**{"guardrail_function": echo, **o}),
    "App": app,
    "Tenants": lambda **o: keyturn.Tenants(**{"journal": "memory://", "make": lambda _name: None, **o}),
    "deferred.Agent": lambda **o: keyturn.deferred.Agent(**o),
    "deferred.Tool": lambda **o: keyturn.deferred.Tool(**{"function": lambda x: x, "name": "t", **o}),
    "DeepAgent": lambda **o: keyturn.deep.create_deep_agent(ScriptedModel([]), **o),
}


def plain(kind: Any, *given: Any) -> Callable[..., Any]:
    return lambda **options: kind(*given, **options)


def policy_file() -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        file.write('default = "ask"\n')
    return file.name


STATE = keyturn.deep.StateBackend()
ENGINE = Mock(sync_engine=None, dialect=Mock())
ENGINE.dialect.name = "sqlite"
KEY_OF_HOOKS, KEY_OF_PUSHES = (
    "whsec_" + base64.b64encode(bytes(32)).decode(),
    base64.urlsafe_b64encode(b"1" * 32).decode(),
)
#: The same of classes whose constructor decides for good, but for a few attributes.
MAKERS |= {
    "SQLiteSession": plain(keyturn.SQLiteSession, "s"),
    "MemorySession": plain(keyturn.MemorySession, "s"),
    "SQLAlchemySession": lambda **o: keyturn.SQLAlchemySession("s", **{"engine": ENGINE, **o}),
    "OpenAIConversationsSession": keyturn.OpenAIConversationsSession,
    "EncryptedSession": plain(keyturn.EncryptedSession, "s", keyturn.MemorySession("s"), "k" * 44),
    "AppriseChannel": plain(keyturn.channels.AppriseChannel, {}),
    "SlackChannel": plain(keyturn.channels.SlackChannel, "xoxb-1"),
    "SlackReplies": plain(keyturn.channels.SlackReplies, "secret"),
    "TerminalChannel": keyturn.channels.TerminalChannel,
    "WebhookChannel": lambda **o: keyturn.channels.WebhookChannel(**{"secret": KEY_OF_HOOKS, **o}),
    "WebPushChannel": lambda **o: keyturn.channels.WebPushChannel(KEY_OF_PUSHES, "mailto:a@example.com", **o),
    "AnthropicModel": plain(keyturn.AnthropicModel, "claude"),
    "GoogleModel": plain(keyturn.GoogleModel, "gemini"),
    "OpenAIResponsesModel": plain(keyturn.OpenAIResponsesModel, "gpt"),
    "OpenAIChatCompletionsModel": plain(keyturn.OpenAIChatCompletionsModel, "gpt"),
    "OpenAIProvider": keyturn.OpenAIProvider,
    "MultiProvider": keyturn.MultiProvider,
    "FallbackModel": plain(keyturn.FallbackModel, ScriptedModel([])),
    "ScriptedModel": ScriptedModel,
    "OpenAIRealtimeWebSocketModel": keyturn.realtime.OpenAIRealtimeWebSocketModel,
    "OpenAIRealtimeSIPModel": keyturn.realtime.OpenAIRealtimeSIPModel,
    "RealtimePlaybackTracker": keyturn.realtime.RealtimePlaybackTracker,
    "RealtimeRunner": plain(keyturn.realtime.RealtimeRunner, keyturn.realtime.RealtimeAgent("a")),
    "LocalExecutor": keyturn.LocalExecutor,
    "BubblewrapExecutor": keyturn.BubblewrapExecutor,
    "Workspace": plain(Workspace, "."),
    "WorkspaceEditor": plain(WorkspaceEditor, "."),
    "FilesystemBackend": plain(keyturn.deep.FilesystemBackend, "."),
    "SandboxBackend": plain(keyturn.deep.SandboxBackend, "."),
    "CompositeBackend": plain(keyturn.deep.CompositeBackend, STATE, {"/kept/": STATE}),
    "StateBackend": keyturn.deep.StateBackend,
    "Policy": Policy,
    "PolicyFile": lambda **o: keyturn.PolicyFile(policy_file(), **o),
    "Reviewer": plain(keyturn.Reviewer, "gpt", "Deny payments."),
    "FunctionToolset": keyturn.deferred.FunctionToolset,
    "ExternalToolset": plain(keyturn.deferred.ExternalToolset, []),
    "ApprovalRequiredToolset": plain(keyturn.deferred.ApprovalRequiredToolset, keyturn.deferred.FunctionToolset()),
    "MCPServerManager": plain(keyturn.MCPServerManager, []),
    "MemoryJournal": MemoryJournal,
    "Inbox": plain(keyturn.Inbox, MemoryJournal()),
    "Insights": plain(keyturn.Insights, MemoryJournal()),
    "Drills": plain(keyturn.Drills, [keyturn.Drill(agent="a", tool="t", arguments={}, input="go")]),
    "AgentOutputSchema": plain(keyturn.AgentOutputSchema, int),
    "BackendSpanExporter": keyturn.tracing.processors.BackendSpanExporter,
    "ConsoleSpanExporter": keyturn.tracing.processors.ConsoleSpanExporter,
    "BatchTraceProcessor": plain(keyturn.tracing.processors.BatchTraceProcessor, None),
}
