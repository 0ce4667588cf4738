"""What programs of the OpenAI Agents SDK import and Keyturn does not have: why, and what to use instead.

A path or a name is in one of these tables, or it is there: a test holds them against the other's list. The texts are
what somebody reads whose import failed, so each says what to do.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

_OURS = __name__.partition(".")[0]

# Rooms that follow another SDK.
_OTHER_ROOMS = ("deferred", "deep")
GUIDE = 'docs/migrating.md, "What is absent"'

_VOICE = "there is no voice pipeline; pass text in and speak the final output with a library of your own"
_SOCKET = "models are asked over HTTP only: use OpenAIResponsesModel"
_HARNESS = "runs are not registered with a harness: name them with RunConfig(workflow_name=..., group_id=...)"
_CUSTOM_DATA = "results carry what the tool returns: return the data, or keep it in the run's context"
_MEMBERS = "name the provider, as in 'openrouter:...' and 'groq:...', or use OpenAIChatCompletionsModel(base_url=...)"
_STORE = "use SQLiteSession, SQLAlchemySession or EncryptedSession, or subclass SessionABC: it has four methods"
_INSIDE = "it is a part of that SDK's machinery and no interface of it"
_TRACING = "RunConfig(tracing=...) is an OpenTelemetry TracerProvider; for a key use set_tracing_export_api_key"
_COMPACTION = "a conversation is not compacted by itself: set SessionSettings(limit=...), or a session_input_callback"

# What that SDK's modules define for one another.
_MACHINERY = """
ComputerT ComputerT_co ComputerT_contra T TAction TContext_co
ValidToolOutputPydanticModels ValidToolOutputPydanticModelsTypeAdapter
coerce_tool_search_call_raw_item coerce_tool_search_output_raw_item
ensure_function_tool_supports_responses_only_features ensure_tool_choice_supports_backend
get_function_tool_origin get_function_tool_responses_only_features
has_more_than_n_keys has_required_tool_search_surface has_responses_tool_search_surface
import_module is_dict is_list is_required_tool_search_surface is_responses_tool_search_surface
maybe_invoke_function_tool_failure_error_function model_usage_to_span_usage prune_orphaned_tool_search_tools
raise_optional_dependency_error resolve_function_tool_failure_error_function resolve_ref
retry_policy_retries_all_transient_errors retry_policy_retries_safe_transport_errors
set_function_tool_failure_error_function task_usage_to_span_data total_usage_to_span_metadata turn_usage_to_span_data
validate_responses_programmatic_tool_calling_configuration validate_responses_tool_search_configuration
with_function_tool_failure_error_handler
"""
_SANDBOX = """
DEFAULT_MAX_ARCHIVE_EXTRACTED_BYTES DEFAULT_MAX_ARCHIVE_INPUT_BYTES DEFAULT_MAX_ARCHIVE_MEMBERS
DEFAULT_MAX_LOCAL_DIR_FILE_CONCURRENCY DEFAULT_MAX_MANIFEST_ENTRY_CONCURRENCY InvalidSandboxStep SandboxArchiveLimits
SandboxCall SandboxCallMatcherError SandboxConcurrencyLimits SandboxScriptError SandboxStepSpec ScriptedSandboxSession
UnconsumedSandboxSteps UnexpectedSandboxCall scripted_sandbox_session
"""

# Paths, with everything below them.
PATHS: dict[str, str] = {
    "agent_tool_input": "give `parameters` and `input_builder` to Agent.as_tool; the input is in context.tool_input",
    "agent_tool_state": _INSIDE,
    "apply_diff": "`apply_diff` is a function of the package: from keyturn import apply_diff",
    "extensions.experimental": "its experiments have no counterpart here; a tool of your own can run such a program",
    "extensions.memory.advanced_sqlite_session": f"sessions have no branches: a run has, see RunState.fork; {_STORE}",
    "extensions.memory.async_sqlite_session": "SQLiteSession does not block the event loop: use it",
    "extensions.memory.dapr_session": _STORE,
    "extensions.memory.mongodb_session": _STORE,
    "extensions.memory.redis_session": _STORE,
    "extensions.models.any_llm_model": _MEMBERS,
    "extensions.models.any_llm_provider": _MEMBERS,
    "extensions.tool_output_trimmer": "cut old results in RunConfig(call_model_input_filter=...)",
    "extensions.visualization": "nothing draws agents; their tools and handoffs are plain lists that you can walk",
    "logger": "use logging.getLogger('keyturn'), or enable_verbose_stdout_logging()",
    "memory.openai_responses_compaction_session": _COMPACTION,
    "models.chatcmpl_converter": _INSIDE,
    "models.chatcmpl_helpers": _INSIDE,
    "models.chatcmpl_stream_handler": _INSIDE,
    "models.fake_id": _INSIDE,
    "models.openai_agent_registration": _HARNESS,
    "models.openai_client_utils": _INSIDE,
    "models.reasoning_content_replay": _INSIDE,
    "responses_websocket_session": _SOCKET,
    "run_internal": _INSIDE,
    "sandbox": "there are no sandbox agents; ShellTool runs commands in a sandbox (BubblewrapExecutor) and "
    "filesystem_tools(Workspace(...)) works on files",
    "tracing.config": _TRACING,
    "tracing.context": _INSIDE,
    "tracing.logger": "use logging.getLogger('keyturn.tracing')",
    "tracing.model_tracing": _INSIDE,
    "tracing.provider": "give an OpenTelemetry TracerProvider to opentelemetry.trace.set_tracer_provider",
    "tracing.scope": "use get_current_span and get_current_trace",
    "tracing.setup": "give an OpenTelemetry TracerProvider to opentelemetry.trace.set_tracer_provider",
    "util": _INSIDE,
    "voice": _VOICE,
}

# Names, by the room of their meaning. A name is absent wherever that SDK has it.
NAMES: dict[str, str] = {
    # Tools
    "ApplyPatchToolCustomDataContext": _CUSTOM_DATA,
    "ApplyPatchToolCustomDataExtractor": _CUSTOM_DATA,
    "ComputerToolCustomDataContext": _CUSTOM_DATA,
    "ComputerToolCustomDataExtractor": _CUSTOM_DATA,
    "CustomToolCustomDataContext": _CUSTOM_DATA,
    "CustomToolCustomDataExtractor": _CUSTOM_DATA,
    "FunctionToolCustomDataContext": _CUSTOM_DATA,
    "FunctionToolCustomDataExtractor": _CUSTOM_DATA,
    "MCPToolCustomDataContext": _CUSTOM_DATA,
    "MCPToolCustomDataExtractor": _CUSTOM_DATA,
    "ComputerConfig": "a ComputerTool holds one Computer: make it before the agent",
    "ComputerProvider": "a ComputerTool holds one Computer: make it before the run, and close it after",
    "ComputerCreate": "a ComputerTool holds one Computer: make it before the run",
    "ComputerDispose": "a ComputerTool holds one Computer: close it after the run",
    "ComputerLike": "annotate with Computer",
    "resolve_computer": "a ComputerTool holds one Computer: make it before the run",
    "dispose_resolved_computers": "a ComputerTool holds one Computer: close it after the run",
    "ProgrammaticToolCallingTool": "every call of a tool is the model's own and passes the gate: list the tools",
    "ToolCaller": "every call of a tool is the model's own: leave out allowed_callers",
    "ToolOrigin": "ask the tool itself: `tool.kind`, and `server_name` of an MCPTool",
    "ToolOriginType": "ask the tool itself: `tool.kind` is 'function', 'mcp', 'agent' and so on",
    "ToolSearchTool": "all tools of an agent are told to the model: use is_enabled to leave some out",
    "tool_namespace": "give tools different names, or name_override; MCP servers prefix theirs with "
    "include_server_in_tool_names",
    "CustomToolExecutor": "annotate with Callable[[ToolContext, str], Any]",
    "DEFAULT_APPROVAL_REJECTION_MESSAGE": "a formatter gets the text as args.default_message (ToolErrorFormatterArgs)",
    "FuncDocumentation": "a tool's description and its parameters' are in its name, description and params_json_schema",
    "generate_func_documentation": "a tool's description and its parameters' are in function_schema(func)",
    "ToolFunctionWithContext": "annotate with ToolFunction",
    "ToolFunctionWithToolContext": "annotate with ToolFunction",
    "ToolFunctionWithoutContext": "annotate with ToolFunction",
    "ToolParams": "annotate with Callable[..., Any]",
    "default_tool_timeout_error_message": "give timeout_error_function to function_tool",
    "invoke_function_tool": "run the agent with a ScriptedModel: a tool is only called through the gate",
    # Models
    "ModelRetryAdviceRequest": "a Model of your own asks again by itself, within get_response",
    "ModelRetryBackoffInput": "annotate with ModelRetryBackoffSettings",
    "Headers": "annotate with Mapping[str, str]",
    "Omit": "leave a header out of extra_headers where it is not to be sent",
    "DEFAULT_MODEL": "name the model: Agent(model='gpt-5')",
    "shared_http_client": "give OpenAIProvider a client of your own, with the HTTP client it is to share",
    "MultiProviderMap": "MultiProvider takes a dict: MultiProvider({'local': provider})",
    "MultiProviderOpenAIPrefixMode": "write 'openai:NAME' for the whole name of a model behind OpenAI's API",
    "MultiProviderUnknownPrefixMode": "annotate with Literal['error', 'model_id']",
    "Converter": _INSIDE,
    "ConvertedTools": _INSIDE,
    "InternalChatCompletionMessage": _INSIDE,
    "InternalToolCall": _INSIDE,
    "LitellmConverter": _INSIDE,
    "OpenAIAgentRegistrationConfig": _HARNESS,
    "set_default_openai_agent_registration": _HARNESS,
    "set_default_openai_harness": _HARNESS,
    "OpenAIResponsesWSModel": _SOCKET,
    "OpenAIResponsesWebSocketOptions": _SOCKET,
    "ResponsesWebSocketError": _SOCKET,
    "ResponsesWebSocketSession": _SOCKET,
    "responses_websocket_session": _SOCKET,
    "set_default_openai_responses_transport": _SOCKET,
    # Runs, items and states
    "AgentRunner": "subclass nothing: Runner has no state, and App is a runner with a journal",
    "DEFAULT_AGENT_RUNNER": "use Runner, or an App",
    "RunOptions": "the options of Runner.run are its parameters",
    "get_default_agent_runner": "use Runner, or an App",
    "set_default_agent_runner": "call your own runner where you call Runner",
    "SandboxRunConfig": "there are no sandbox agents; see ShellTool and filesystem_tools",
    "ContextDeserializer": "annotate with Callable[[Mapping[str, Any]], Any]",
    "ContextOverride": "annotate with the type of your context",
    "ContextSerializer": "annotate with Callable[[Any], Mapping[str, Any]]",
    "CURRENT_SCHEMA_VERSION": "a saved state says its own version and is read or refused by it",
    "SCHEMA_VERSION_SUMMARIES": "a saved state says its own version and is read or refused by it",
    "SUPPORTED_SCHEMA_VERSIONS": "a saved state says its own version and is read or refused by it",
    "RunStateValidationError": "catch StateRejected",
    "RunStateValidationErrorFactory": "catch StateRejected",
    "RunStateValidationErrorType": "catch StateRejected",
    "ToInputListMode": "to_input_list has one form: what the model would read",
    "TResponse": "annotate with ModelResponse",
    "ToolApprovalRawItem": "annotate with TResponseInputItem",
    "ToolCallItemTypes": "annotate with TResponseInputItem",
    "ToolCallOutputTypes": "annotate with TResponseInputItem",
    "ToolSearchCallRawItem": "annotate with TResponseInputItem",
    "ToolSearchOutputRawItem": "annotate with TResponseInputItem",
    "PromptUtil": "an agent's prompt is worked out by agent.get_prompt(context)",
    # MCP
    "MCPToolCancellationError": "a call that went wrong raises MCPServerError; see its may_have_acted",
    "GetSessionIdCallback": _INSIDE,
    "HttpClientFactory": "annotate with Callable[..., Any]",
    "LocalMCPApprovalCallable": "annotate with Callable[[RunContextWrapper, Agent, Any], bool]",
    "MCPStreamTransport": _INSIDE,
    "MCPToolMetaResolver": "annotate with Callable[[MCPToolMetaContext], dict[str, Any] | None]",
    "RequireApprovalMapping": "annotate with dict[str, Any]",
    "RequireApprovalObject": "annotate with dict[str, Any]",
    "RequireApprovalPolicy": "annotate with Literal['always', 'never']",
    "RequireApprovalToolList": "annotate with dict[str, list[str]]",
    "StreamableHTTPTransport": "subclass keyturn.mcp.protocol_server.ProtocolServer: a transport is one method",
    "streamablehttp_client": "use MCPServerStreamableHttp",
    "ToolFilter": "annotate with ToolFilterStatic, or Callable[[ToolFilterContext, Any], bool]",
    "ToolFilterCallable": "annotate with Callable[[ToolFilterContext, Any], bool]",
    # Sessions
    "OpenAIResponsesCompactionArgs": _COMPACTION,
    "OpenAIResponsesCompactionAwareSession": _COMPACTION,
    "OpenAIResponsesCompactionSession": _COMPACTION,
    "is_openai_responses_compaction_aware_session": _COMPACTION,
    "AdvancedSQLiteSession": f"sessions have no branches: a run has, see RunState.fork; {_STORE}",
    "AsyncSQLiteSession": "SQLiteSession does not block the event loop: use it",
    **dict.fromkeys(
        ("DaprSession", "DAPR_CONSISTENCY_EVENTUAL", "DAPR_CONSISTENCY_STRONG", "MongoDBSession", "RedisSession"),
        _STORE,
    ),
    "coerce_session_settings": "SessionSettings(**given) checks what it is given",
    "resolve_session_limit": "a session reads its own session_settings.limit",
    "start_openai_conversations_session": "OpenAIConversationsSession() begins a conversation when it is first used",
    # Tracing
    "NO_OP_TRACE": "use trace(..., disabled=True)",
    "NoOpSpan": "spans that are not traced have span.place == ''",
    "NoOpTrace": "use trace(..., disabled=True)",
    "SpanImpl": "annotate with Span",
    "TraceCtxManager": "use trace(...)",
    "TraceImpl": "annotate with Trace",
    "TraceProvider": "use an OpenTelemetry TracerProvider",
    "TraceState": "a run keeps the place of its trace in its own state",
    "ReattachedTrace": "a run that is resumed continues its trace by itself",
    "reattach_trace": "a run that is resumed continues its trace by itself",
    "TracingConfig": _TRACING,
    "get_trace_provider": "use opentelemetry.trace.get_tracer_provider()",
    "set_trace_provider": "use opentelemetry.trace.set_tracer_provider, and add_trace_processor for processors",
    "gen_group_id": "any text is a group_id",
    "speech_group_span": _VOICE,
    "speech_span": _VOICE,
    "transcription_span": _VOICE,
    "SpeechGroupSpanData": _VOICE,
    "SpeechSpanData": _VOICE,
    "TranscriptionSpanData": _VOICE,
    "serialize_usage": "use dataclasses.asdict(usage)",
    "deserialize_usage": "a saved state brings its usage with it",
    # Tests
    "ModelResponder": "annotate with Callable[[Any], Any]",
    "ModelScriptItem": "annotate with Any: a step is a text, an item, a list, an error or a ModelStep",
    "ModelStepReason": "the errors of a script say why in words",
    "ModelStepResult": "annotate with Any",
    "ModelStepSpec": "use ModelStep",
    "ModelStreamFactory": "annotate with Callable[[Any], Any]",
    "ToolOutputTrimmer": "cut old results in RunConfig(call_model_input_filter=...)",
    **dict.fromkeys(_MACHINERY.split(), _INSIDE),
    **dict.fromkeys(_SANDBOX.split(), "there are no sandbox agents; see ShellTool and filesystem_tools"),
}


def said(path: str) -> str:
    """What the import of something absent says: why, or what is called alike, and where to read on.

    >>> said("sandbox.agents")[:60]
    "keyturn has no 'sandbox.agents': there are no sandbox agents"
    >>> said("Runer")
    "keyturn has no 'Runer'; it has 'Runner'"
    """
    name = path.rpartition(".")[2]
    parts = path.split(".")
    above = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    if parts[0] in _OTHER_ROOMS:
        return _elsewhere(path, name)
    advice = next((PATHS[each] for each in above if each in PATHS), None) or NAMES.get(name)
    if advice is not None:
        return f"keyturn has no {path!r}: {advice}"
    known: list[str] = import_module(_OURS).__all__
    if name in known:
        return f"keyturn has no {path!r}; from keyturn import {name}"
    alike = get_close_matches(name, known, 1, 0.8)
    return f"keyturn has no {path!r}; " + (f"it has {alike[0]!r}" if alike else f"see {GUIDE}")


def _elsewhere(path: str, name: str) -> str:
    """Return the same for the rooms that follow Pydantic AI and pydantic-deep, which have a table of their own."""
    absent = import_module(f"{_OURS}.deferred.absent")
    room = import_module(f"{_OURS}.{path.partition('.')[0]}")
    advice = absent.advice(name, room.__all__)
    return f"keyturn has no {path!r}" + (f": {advice}" if advice else f"; see {absent.GUIDE}")
