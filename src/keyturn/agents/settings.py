"""Settings of a whole run, and the data that its callbacks get.

Settings are plain data, checked when they are made; a name or a value that nobody knows is an error, never a
setting without effect. Nothing here acts on them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, Generic, Literal, TypedDict, TypeVar, cast

from ..core.errors import MaxTurnsExceeded, ModelBehaviorError, ModelRefusalError, UsageLimitExceeded, UserError
from ..core.items import Item
from ..models.base import Model, ModelProvider, ModelSettings
from ..policies.base import PolicyLike
from ..sessions.base import SessionSettings
from ..tracing.base import check_provider
from ..user_code import answer_of
from .context import RunContextWrapper, TContext
from .guardrail import BlockedMessage, InputGuardrail, OutputGuardrail, check_blocked_message
from .handoff_input import HandoffHistoryMapper, HandoffInputFilter
from .limits import UsageLimits

_T = TypeVar("_T")


@dataclass
class ToolExecutionConfig:
    """Says how tools are run.

    `pre_approval_tool_input_guardrails` runs a tool's input guardrails before anybody is asked as well: what
    they reject bothers nobody.

    >>> ToolExecutionConfig(max_function_tool_concurrency=4).max_function_tool_concurrency
    4
    """

    max_function_tool_concurrency: int | None = None
    pre_approval_tool_input_guardrails: bool = False

    def __post_init__(self) -> None:
        most: Any = self.max_function_tool_concurrency
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise UserError(f"max_function_tool_concurrency must be a whole number of 1 or more, or None, not {most!r}")
        if not isinstance(cast("Any", self.pre_approval_tool_input_guardrails), bool):
            raise UserError("pre_approval_tool_input_guardrails must be True or False")


@dataclass
class ToolErrorFormatterArgs(Generic[TContext]):
    """Holds what a `tool_error_formatter` gets.

    It returns the text for the model, or None for `default_message`.

    >>> def formatter(args: ToolErrorFormatterArgs) -> str | None:
    ...     return "Ask the user first." if args.kind == "approval_rejected" else None
    >>> formatter(ToolErrorFormatterArgs("approval_rejected", "function", "pay", "c1", "No.", RunContextWrapper(None)))
    'Ask the user first.'
    """

    kind: Literal["approval_rejected", "tool_not_found", "tool_exception"]
    tool_type: str
    tool_name: str
    call_id: str
    default_message: str
    run_context: RunContextWrapper[TContext]
    error: Exception | None = None


@dataclass
class ModelInputData:
    """Holds what a model is about to be sent.

    >>> ModelInputData(input=[{"role": "user", "content": "hi"}], instructions=None).instructions is None
    True
    """

    input: list[Item]
    instructions: str | None


@dataclass
class CallModelData(Generic[TContext]):
    """Holds what a `call_model_input_filter` gets; it returns the `ModelInputData` to use.

    >>> CallModelData(ModelInputData([], "Be brief."), agent=None, context=None).model_data.instructions
    'Be brief.'
    """

    model_data: ModelInputData
    agent: Any
    context: TContext | None


ToolErrorFormatter = Callable[[ToolErrorFormatterArgs[Any]], str | Awaitable[str | None] | None]
ReasoningItemIdPolicy = Literal["preserve", "omit"]
ToolNotFoundBehavior = Literal["raise_error", "return_error_to_model"]
ToolNameCollisionPolicy = Literal["error"]
CallModelInputFilter = Callable[[CallModelData[Any]], ModelInputData | Awaitable[ModelInputData]]
SessionInputCallback = Callable[[list[Item], list[Item]], list[Item] | Awaitable[list[Item]]]


@dataclass
class RunConfig:
    """Holds the settings for one whole run, whichever agents take part in it.

    `policy` says of every call whether it may run. `usage_limits` are recorded with the run and hold after a pause
    until others are given; `UsageLimits()` takes them away. `paused_session` says what a new message does to a run that
    waits on the same session: with "queue" it waits until that run is over, which takes a journal. A `model_provider`
    of None is the process's own, and so is a tracer provider as `tracing`. `trace_include_sensitive_data=True` puts
    messages, arguments and results into its spans. A reply with more than `max_calls_per_reply` calls is refused whole.
    `nest_handoff_history` tells the next agent the conversation in one message, or as `handoff_history_mapper` makes
    it, unless an input filter says what it sees.

    >>> RunConfig(model="anthropic:claude-sonnet", tracing_disabled=True).workflow_name
    'Agent workflow'
    """

    model: str | Model | None = None
    model_provider: ModelProvider | None = None
    model_settings: ModelSettings | None = None
    handoff_input_filter: HandoffInputFilter | None = None
    nest_handoff_history: bool = False
    handoff_history_mapper: HandoffHistoryMapper | None = None
    input_guardrails: list[InputGuardrail[Any]] | None = None
    output_guardrails: list[OutputGuardrail[Any]] | None = None
    tracing_disabled: bool = False
    tracing: Any = None
    trace_include_sensitive_data: bool = False
    workflow_name: str = "Agent workflow"
    trace_id: str | None = None
    group_id: str | None = None
    trace_metadata: dict[str, Any] | None = None
    session_input_callback: SessionInputCallback | None = None
    call_model_input_filter: CallModelInputFilter | None = None
    tool_error_formatter: ToolErrorFormatter | None = None
    session_settings: SessionSettings | None = None
    reasoning_item_id_policy: ReasoningItemIdPolicy | None = None
    tool_execution: ToolExecutionConfig | None = None
    tool_not_found_behavior: ToolNotFoundBehavior = "raise_error"
    tool_name_collision_policy: ToolNameCollisionPolicy = "error"
    output_guardrail_blocked_message: BlockedMessage | None = None
    policy: PolicyLike | None = None
    usage_limits: UsageLimits | None = None
    paused_session: Literal["supersede", "refuse", "queue"] = "supersede"
    max_calls_per_reply: int = 1_000

    def __post_init__(self) -> None:
        # A dict from a file or a request is as good as the object, at every level.
        self.model_settings = _made(ModelSettings, self.model_settings, "model_settings")
        self.session_settings = _made(SessionSettings, self.session_settings, "session_settings")
        self.usage_limits = _made(UsageLimits, self.usage_limits, "usage_limits")
        self.tool_execution = _made(ToolExecutionConfig, self.tool_execution, "tool_execution")
        check_provider(self.tracing)
        check_blocked_message(self.output_guardrail_blocked_message)
        most: object = self.max_calls_per_reply
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise UserError(f"RunConfig max_calls_per_reply must be a whole number of 1 or more, not {most!r}")
        for setting, allowed in _CHOICES.items():
            if getattr(self, setting) not in allowed:
                words = " or ".join(repr(word) for word in allowed)
                raise UserError(f"RunConfig {setting} must be {words}, not {getattr(self, setting)!r}")
        for setting in _CALLBACKS:
            if getattr(self, setting) is not None and not callable(getattr(self, setting)):
                raise UserError(f"RunConfig {setting} must be a callable or None, not {getattr(self, setting)!r}")

    @classmethod
    def of(cls, value: RunConfig | Mapping[str, Any] | None) -> RunConfig:
        """Return the settings that a caller gave, as an object of the run's own.

        >>> RunConfig.of({"workflow_name": "Refunds"}).workflow_name
        'Refunds'
        >>> RunConfig.of({"workflow": "Refunds"})
        Traceback (most recent call last):
        ...
        keyturn.core.errors.UserError: RunConfig has no setting 'workflow'
        """
        if value is None:
            return cls()
        made = _made(cls, value, "run_config")
        return copy(cast("RunConfig", made))


_CHOICES: dict[str, tuple[Any, ...]] = {
    "nest_handoff_history": (True, False),
    "tool_not_found_behavior": ("raise_error", "return_error_to_model"),
    "tool_name_collision_policy": ("error",),
    "reasoning_item_id_policy": ("preserve", "omit", None),
    "paused_session": ("supersede", "refuse", "queue"),
}
_CALLBACKS = (
    "handoff_input_filter",
    "handoff_history_mapper",
    "session_input_callback",
    "call_model_input_filter",
    "tool_error_formatter",
)


def _made(kind: type[_T], value: Any, setting: str) -> _T | None:
    if value is None or isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise UserError(f"{setting} must be a {kind.__name__} or a dict, not {type(value).__name__}")
    given = cast("Mapping[str, Any]", value)
    for name in given.keys() - {each.name for each in fields(cast("Any", kind))}:
        raise UserError(f"{kind.__name__} has no setting {name!r}")
    return kind(**given)


@dataclass
class RunErrorData:
    """Holds a run as far as it came when it failed.

    >>> RunErrorData(input="hi", new_items=[], history=[], output=[], raw_responses=[], last_agent=None).input
    'hi'
    """

    input: str | list[Item]
    new_items: list[Any]
    history: list[Item]
    output: list[Item]
    raw_responses: list[Any]
    last_agent: Any


@dataclass
class RunErrorHandlerInput(Generic[TContext]):
    """Holds what an error handler gets: the error, the context, and the run as far as it came.

    >>> RunErrorHandlerInput(MaxTurnsExceeded("10 turns"), RunContextWrapper("ctx"), run_data=None).context.context
    'ctx'
    """

    error: MaxTurnsExceeded | UsageLimitExceeded | ModelRefusalError | ModelBehaviorError
    context: RunContextWrapper[TContext]
    run_data: Any


@dataclass
class RunErrorHandlerResult:
    """Holds what an error handler answers: the run's final output in place of the error.

    `include_in_history` adds the output to the conversation as a message.

    >>> RunErrorHandlerResult.of("Sorry, I ran out of turns.").include_in_history
    True
    """

    final_output: Any
    include_in_history: bool = True

    @classmethod
    def of(cls, answer: Any) -> RunErrorHandlerResult | None:
        """Convert a handler's answer: a result, a dict of one, or just the output; None keeps the error."""
        if answer is None or isinstance(answer, cls):
            return answer
        if isinstance(answer, dict):
            given = cast("dict[str, Any]", answer)
            if "final_output" in given and given.keys() <= {"final_output", "include_in_history"}:
                return cls(**given)
        return cls(answer)


RunErrorHandler = Callable[[RunErrorHandlerInput[Any]], Any]


class RunErrorHandlers(TypedDict, total=False):
    """Declares what to do instead of raising: one handler for each kind of error, each sync or async.

    >>> handlers: RunErrorHandlers = {"max_turns": lambda data: "I ran out of turns."}
    >>> sorted(handlers)
    ['max_turns']
    """

    max_turns: RunErrorHandler
    usage_limit: RunErrorHandler
    model_refusal: RunErrorHandler
    invalid_final_output: RunErrorHandler


def check_error_handlers(handlers: Mapping[str, Any] | None) -> None:
    """Refuse a kind of error that nobody raises, and what is no handler."""
    for kind, handler in (handlers or {}).items():
        if kind not in RunErrorHandlers.__annotations__:
            known = ", ".join(RunErrorHandlers.__annotations__)
            raise UserError(f"error_handlers has no kind {kind!r}; it is one of {known}")
        if not callable(handler):
            raise UserError(f"error_handlers[{kind!r}] must be callable, not {type(handler).__name__}")


async def handled(
    handlers: Mapping[str, Any] | None, kind: str, data: RunErrorHandlerInput[Any]
) -> RunErrorHandlerResult | None:
    """Call the handler of this kind of error; return None where there is none or it keeps the error."""
    handler: Any = (handlers or {}).get(kind)
    if handler is None:
        return None
    return RunErrorHandlerResult.of(await answer_of(handler, data))
