"""The modules of the package's root that repeat names where the OpenAI Agents SDK has them, as one table.

    python -m tests.openai_paths    # writes them

`tests/test_exports.py` compares. They are real files, since type checkers and editors read them.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "keyturn"
#: By module: what it repeats, the public names, and others by the module that has them.
PATHS: dict[str, tuple[str, str, dict[str, str]]] = {
    "agent": (
        "agents and what they are made of",
        "Agent AgentBase AgentToolStreamEvent StopAtTools ToolsToFinalOutputFunction ToolsToFinalOutputResult",
        {"agents.agent_base": "MCPConfig"},
    ),
    "agent_output": ("types of final answers", "AgentOutputSchema AgentOutputSchemaBase", {}),
    "computer": ("computers that a model uses", "AsyncComputer Button Computer Environment", {}),
    "editor": (
        "who applies patches",
        "ApplyPatchEditor ApplyPatchOperation ApplyPatchResult",
        {"tools.patches.editor": "ApplyPatchOperationType"},
    ),
    "exceptions": (
        "every error a run can end with",
        (
            "AgentsException InputGuardrailTripwireTriggered MaxTurnsExceeded ModelBehaviorError "
            "ModelRefusalError ModelTimeoutError OutputGuardrailTripwireTriggered RunErrorDetails "
            "ToolInputGuardrailTripwireTriggered ToolOutputGuardrailTripwireTriggered ToolTimeoutError UserError"
        ),
        {},
    ),
    "function_schema": (
        "the schema of a function",
        "",
        {"tools.functions.docstrings": "DocstringStyle", "tools.functions.schema": "FunctionSchema function_schema"},
    ),
    "guardrail": (
        "guardrails on input and output",
        (
            "GuardrailFunctionOutput InputGuardrail InputGuardrailResult OutputGuardrail OutputGuardrailResult "
            "input_guardrail output_guardrail"
        ),
        {},
    ),
    "items": (
        "what a run produced",
        (
            "CompactionItem HandoffCallItem HandoffOutputItem InputItem ItemHelpers MCPApprovalRequestItem "
            "MCPApprovalResponseItem MCPListToolsItem MessageOutputItem ModelResponse ReasoningItem RunItem "
            "ToolApprovalItem ToolCallItem ToolCallOutputItem ToolSearchCallItem ToolSearchOutputItem "
            "TResponseInputItem"
        ),
        {"core.items": "TResponseOutputItem TResponseStreamEvent", "engine.views.items": "RunItemBase"},
    ),
    "lifecycle": ("hooks", "AgentHooks RunHooks", {"agents.hooks": "AgentHooksBase RunHooksBase TAgent"}),
    "model_settings": ("how a model is asked", "MCPToolChoice ModelSettings", {"models.tool_choice": "ToolChoice"}),
    "prompts": ("prompts that the provider keeps", "DynamicPromptFunction GenerateDynamicPromptData Prompt", {}),
    "repl": ("a conversation at the keyboard", "run_demo_loop", {}),
    "result": ("what a run came to", "AgentToolInvocation RunResult RunResultStreaming", {}),
    "retry": (
        "how a model is asked again",
        (
            "ModelRetryAdvice ModelRetryBackoffSettings ModelRetryNormalizedError ModelRetrySettings "
            "RetryDecision RetryPolicy RetryPolicyContext retry_policies"
        ),
        {},
    ),
    "run": (
        "running agents",
        (
            "CallModelData ModelInputData OutputGuardrailBlockedMessageArgs "
            "OutputGuardrailBlockedMessageFormatter ReasoningItemIdPolicy RunConfig RunContextWrapper Runner "
            "RunState ToolErrorFormatter ToolErrorFormatterArgs ToolExecutionConfig ToolNameCollisionPolicy "
            "ToolNotFoundBehavior"
        ),
        {"agents.settings": "CallModelInputFilter", "agents.limits": "DEFAULT_MAX_TURNS"},
    ),
    "run_config": (
        "settings for a whole run",
        (
            "CallModelData ModelInputData OutputGuardrailBlockedMessageArgs "
            "OutputGuardrailBlockedMessageFormatter ReasoningItemIdPolicy RunConfig ToolErrorFormatter "
            "ToolErrorFormatterArgs ToolExecutionConfig ToolNameCollisionPolicy ToolNotFoundBehavior"
        ),
        {"agents.settings": "CallModelInputFilter", "agents.limits": "DEFAULT_MAX_TURNS"},
    ),
    "run_context": ("the context of a run", "AgentHookContext RunContextWrapper TContext", {}),
    "run_error_handlers": (
        "what to do in place of raising",
        "RunErrorData RunErrorHandler RunErrorHandlerInput RunErrorHandlerResult RunErrorHandlers",
        {},
    ),
    "run_state": ("a paused run", "RunState TContext", {"agents.hooks": "TAgent"}),
    "stream_events": (
        "the events of a streamed run",
        "AgentUpdatedStreamEvent RawResponsesStreamEvent RunItemStreamEvent StreamEvent",
        {},
    ),
    "strict_schema": ("strict JSON schemas", "", {"tools.strict_schema": "ensure_strict_json_schema"}),
    "tool": (
        "tools and what belongs to them",
        (
            "ApplyPatchTool CodeInterpreterTool ComputerTool ComputerToolSafetyCheckData CustomTool "
            "FileSearchTool FunctionTool FunctionToolResult HostedMCPTool ImageGenerationTool "
            "ImageGenerationToolConfig LocalShellCommandRequest LocalShellExecutor LocalShellTool "
            "MCPToolApprovalFunction MCPToolApprovalFunctionResult MCPToolApprovalRequest ShellActionRequest "
            "ShellCallData ShellCallOutcome ShellCommandOutput ShellCommandRequest ShellExecutor "
            "ShellOnApprovalFunctionResult ShellResult ShellTool ShellToolContainerAutoEnvironment "
            "ShellToolContainerNetworkPolicy ShellToolContainerNetworkPolicyAllowlist "
            "ShellToolContainerNetworkPolicyDisabled ShellToolContainerNetworkPolicyDomainSecret "
            "ShellToolContainerReferenceEnvironment ShellToolContainerSkill ShellToolEnvironment "
            "ShellToolHostedEnvironment ShellToolInlineSkill ShellToolInlineSkillSource ShellToolLocalEnvironment "
            "ShellToolLocalSkill ShellToolSkillReference Tool ToolOutputFileContent ToolOutputFileContentDict "
            "ToolOutputImage ToolOutputImageDict ToolOutputText ToolOutputTextDict WebSearchTool "
            "WebSearchToolImageSettings default_tool_error_function function_tool"
        ),
        {
            "tools.approval_callbacks": (
                "ApplyPatchApprovalFunction ApplyPatchOnApprovalFunction ApplyPatchOnApprovalFunctionResult "
                "CustomToolApprovalFunction CustomToolOnApprovalFunction CustomToolOnApprovalFunctionResult "
                "ShellApprovalFunction ShellOnApprovalFunction"
            ),
            "tools.function": "ToolFunction",
            "tools.functions.bound": "ToolErrorFunction",
            "tools.functions.options": "TimeoutBehavior",
        },
    ),
    "tool_context": ("the context of a call", "ToolContext", {}),
    "tool_guardrails": (
        "guardrails on tools",
        (
            "ToolGuardrailFunctionOutput ToolInputGuardrail ToolInputGuardrailData ToolInputGuardrailResult "
            "ToolOutputGuardrail ToolOutputGuardrailData ToolOutputGuardrailResult tool_input_guardrail "
            "tool_output_guardrail"
        ),
        {"agents.tool_guardrail": "AllowBehavior RaiseExceptionBehavior RejectContentBehavior"},
    ),
    "usage": ("what a run used", "RequestUsage Usage", {}),
    "version": ("the version", "__version__", {}),
}
#: Names that stand for another of their module.
ALIASES = {
    "function_schema": "FuncSchema = FunctionSchema\n\n",
    "result": "RunResultBase = RunResult\n\n",
    "tool": "ToolTimeoutBehavior = TimeoutBehavior\n\n",
}


def module(name: str, what: str, public: str, others: dict[str, str]) -> str:
    """Return the text of one module."""
    homes = {**others, "": public, "support.missing": "speaks"}
    lines = [
        f"from .{home} import {each}" + ("" if each == "speaks" else f" as {each}")
        for home, names in sorted(homes.items())
        for each in names.split()
    ]
    return (
        f'"""Re-export {what} under a path of the OpenAI Agents SDK; nothing is defined here."""\n\n'
        "from __future__ import annotations\n\n" + "\n".join(lines) + f"\n\n{ALIASES.get(name, '')}speaks(__name__)\n"
    )


def written() -> dict[Path, str]:
    """Return each file with the text that it has to have."""
    return {ROOT / f"{name}.py": module(name, *row) for name, row in PATHS.items()}


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
