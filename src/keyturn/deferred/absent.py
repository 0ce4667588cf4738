"""What programs of Pydantic AI and pydantic-deep use and Keyturn does not have, and what to use instead.

An option, an attribute or an import of these names is refused with its remedy, wherever a program first uses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

GUIDE = 'docs/coming-from-pydantic-ai.md, "What is not covered"'

_RETRY = "raise ModelRetry in a tool, and bound a run with usage_limits=UsageLimits(...)"
_JUDGE = "use an output guardrail: Agent(run_config=RunConfig(output_guardrails=[...])) of keyturn"
_STEPS = "use run_stream_events(), which yields each step of the run"
_INPUT = "use Agent(run_config=RunConfig(call_model_input_filter=...)) of keyturn"
_TESTED = "use keyturn.testing.ScriptedModel, with run(model=...)"
_TYPED = "give the type alone as output_type"
_SHOWN = "use is_enabled= of a tool, or tool_filter= of an MCP server"
_PART = 'give content parts as dicts: {"type": "input_image", ...}'
_SPANS = "spans are OpenTelemetry's and need no option: see docs/tracing.md"
_SERVED = "serve the agent with an App: keyturn serve module:app"
_HOSTED = "put the hosted tools of keyturn into tools=, such as WebSearchTool()"
_SERVER = "use the servers of keyturn.mcp, which stand in toolsets="

#: What is absent, and what to use instead.
ABSENT: dict[str, str] = {
    **dict.fromkeys(("retries", "max_retries", "tool_retries", "output_retries"), _RETRY),
    **dict.fromkeys(("output_validator", "output_validators"), _JUDGE),
    **dict.fromkeys(("iter", "event_stream_handler", "run_stream_sync"), _STEPS),
    **dict.fromkeys(("history_processors", "capabilities", "HistoryProcessor"), _INPUT),
    **dict.fromkeys(("override", "TestModel", "FunctionModel", "capture_run_messages"), _TESTED),
    **dict.fromkeys(("ToolOutput", "NativeOutput", "PromptedOutput", "TextOutput", "StructuredDict"), _TYPED),
    **dict.fromkeys(("prepare", "prepare_tools", "prepare_output_tools", "FilteredToolset", "PreparedToolset"), _SHOWN),
    **dict.fromkeys(("PrefixedToolset", "RenamedToolset", "WrapperToolset", "CombinedToolset"), _SHOWN),
    **dict.fromkeys(("ImageUrl", "AudioUrl", "VideoUrl", "DocumentUrl", "BinaryContent", "BinaryImage"), _PART),
    **dict.fromkeys(("instrument", "instrument_all", "InstrumentationSettings"), _SPANS),
    **dict.fromkeys(("to_a2a", "to_ag_ui", "to_cli", "to_cli_sync", "to_web"), _SERVED),
    **dict.fromkeys(("builtin_tools", "web_search", "WebFetchTool", "UrlContextTool", "MemoryTool"), _HOSTED),
    **dict.fromkeys(("MCPServerStdio", "MCPServerSSE", "MCPServerStreamableHTTP", "MCPToolset"), _SERVER),
    "defer_model_check": "a model is looked up when it is first asked: leave it out",
    "end_strategy": "every call of a reply has its result before the model is asked again: leave it out",
    "sequential": "use RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1)) of keyturn",
    "edit_format": "edit_file replaces one text by another: leave it out",
    "workspace": "give a backend: FilesystemBackend(folder), SandboxBackend(folder)",
    "create_sandbox": "use SandboxBackend(folder) as the backend",
    "DockerSandbox": "use SandboxBackend(folder) as the backend",
    "LocalBackend": "use FilesystemBackend(folder), or SandboxBackend(folder) to run commands",
    "UnexpectedModelBehavior": "from keyturn import ModelBehaviorError",
    "UsageLimitExceeded": "from keyturn import UsageLimitExceeded",
    "UserError": "from keyturn import UserError",
    "models": "models stand in keyturn: OpenAIResponsesModel, AnthropicModel, GoogleModel, or a name",
    "toolsets": "import toolsets from keyturn.deferred",
    "usage": "from keyturn import Usage, UsageLimits",
}


def advice(name: str, known: Iterable[str]) -> str:
    """Return what to use instead of a name, or which one is spelled alike; "" where neither is known.

    >>> advice("retries", [])
    'raise ModelRetry in a tool, and bound a run with usage_limits=UsageLimits(...)'
    >>> advice("toolz", ["tools", "name"])
    "did you mean 'tools'?"
    """
    remedy = ABSENT.get(name)
    if remedy is None:
        alike = get_close_matches(name, list(known), 1, 0.7)
        remedy = f"did you mean {alike[0]!r}?" if alike else ""
    return remedy
