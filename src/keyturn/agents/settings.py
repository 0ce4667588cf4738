"""Settings of a whole run, and the data that its callbacks get.

Settings are plain data, checked when they are made; a name or a value that nobody knows is an error, never a
setting without effect. Nothing here acts on them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Literal, TypedDict, TypeVar, cast

from ..core.errors import MaxTurnsExceeded, ModelBehaviorError, ModelRefusalError, UsageLimitExceeded, UserError
from ..core.items import Item
from ..core.settable import (
    CALLBACK,
    ENTRIES,
    FLAG,
    WHOLE,
    Rule,
    Rules,
    Settable,
    anything,
    did_you_mean,
    must,
    one_of,
    own_of,
    then,
)
from ..core.values import is_whole
from ..models.base import Model, ModelProvider, ModelSettings
from ..policies.base import PolicyLike
from ..sessions.base import SessionSettings
from ..support.constructors import settings
from ..support.user_code import answer_of
from ..tracing.base import check_provider
from .context import RunContextWrapper, TContext
from .guardrail import BlockedMessage, InputGuardrail, OutputGuardrail, check_blocked_message
from .handoff_input import HandoffHistoryMapper, HandoffInputFilter
from .limits import UsageLimits

_T = TypeVar("_T")


def _is_most(value: object) -> bool:
    return value is None or (is_whole(value) and value >= 1)


@settings()
class ToolExecutionConfig(Settable):
    """Says how tools are run.

    `pre_approval_tool_input_guardrails` runs a tool's input guardrails before anybody is asked as well: what
    they reject bothers nobody. `max_invalid_replies` is after how many replies in a row, whose calls no tool takes,
    the run stops: None for never.

    >>> ToolExecutionConfig(max_function_tool_concurrency=4).max_function_tool_concurrency
    4
    """

    max_function_tool_concurrency: int | None = None
    pre_approval_tool_input_guardrails: bool = False
    max_invalid_replies: int | None = 5

    _rules: ClassVar[Rules] = {
        "max_invalid_replies": must(_is_most, "a whole number of 1 or more, or None"),
        "max_function_tool_concurrency": must(_is_most, "a whole number of 1 or more, or None"),
        "pre_approval_tool_input_guardrails": FLAG,
    }


@dataclass(slots=True)
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


@dataclass(slots=True)
class ModelInputData:
    """Holds what a model is about to be sent.

    >>> ModelInputData(input=[{"role": "user", "content": "hi"}], instructions=None).instructions is None
    True
    """

    input: list[Item]
    instructions: str | None


@dataclass(slots=True)
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


def _made(kind: type[_T], value: Any, setting: str) -> _T | None:
    """Return settings as an object: a dict from a file or a request is as good, at every level."""
    if value is None or isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise UserError(f"{setting} must be a {kind.__name__} or a dict, not {type(value).__name__}")
    given = cast("Mapping[str, Any]", value)
    known = {each.name for each in fields(cast("Any", kind))}
    for name in given.keys() - known:
        raise UserError(f"{kind.__name__} has no setting {name!r}{did_you_mean(name, known)}")
    return kind(**given)


def _settings(kind: type[Any]) -> Rule:
    return lambda _config, name, value: _made(kind, value, name)


def _passes(check: Callable[[Any], None]) -> Rule:
    return then(anything, lambda _config, value: check(value))


def _policy(config: object, _name: str, policy: object) -> Any:
    """Check a policy by what holds the settings: an app lints it against its agents."""
    check: Any = own_of(config).get("_check_policy")
    return policy if check is None else check(policy)


RUN_RULES: dict[str, Rule] = {
    "policy": _policy,
    "model_settings": _settings(ModelSettings),
    "session_settings": _settings(SessionSettings),
    "usage_limits": _settings(UsageLimits),
    "tool_execution": _settings(ToolExecutionConfig),
    "tracing": _passes(check_provider),
    "output_guardrail_blocked_message": _passes(check_blocked_message),
    "nest_handoff_history": one_of(True, False),
    "tool_not_found_behavior": one_of("raise_error", "return_error_to_model"),
    "tool_name_collision_policy": one_of("error"),
    "reasoning_item_id_policy": one_of("preserve", "omit", None),
    "paused_session": one_of("supersede", "refuse", "queue"),
    "max_calls_per_reply": WHOLE,
    **dict.fromkeys(("handoff_input_filter", "handoff_history_mapper", "session_input_callback"), CALLBACK),
    **dict.fromkeys(("call_model_input_filter", "tool_error_formatter"), CALLBACK),
    **dict.fromkeys(("input_guardrails", "output_guardrails"), ENTRIES),
}


@settings()
class RunConfig(Settable):
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
    _rules = RUN_RULES

    @classmethod
    def of(cls, value: RunConfig | Mapping[str, Any] | None) -> RunConfig:
        """Return the settings that a caller gave, as an object of the run's own.

        >>> RunConfig.of({"workflow_name": "Refunds"}).workflow_name
        'Refunds'
        >>> RunConfig.of({"workflow": "Refunds"})
        Traceback (most recent call last):
        ...
        keyturn.core.errors.UserError: RunConfig has no setting 'workflow'; did you mean 'workflow_name'?
        """
        given = cast("RunConfig", _made(cls, _DEFAULTS if value is None else value, "run_config"))
        made = object.__new__(given.__class__)  # one for each run: `copy.copy` pickles an object to copy it
        own_of(made).update(own_of(given))
        own_of(made).pop("_check_policy", None)
        return made


_DEFAULTS = RunConfig()
#: The settings of a run configuration that `Runner` and `App` have arguments for as well.
ALSO_ARGUMENTS = ("policy", "usage_limits")


def with_arguments(config: RunConfig, arguments: Mapping[str, Any]) -> RunConfig:
    """Return a run configuration with the settings that were passed as arguments beside it.

    >>> with_arguments(RunConfig(policy=print), {"policy": len})
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: policy= and run_config=RunConfig(policy=...) differ: pass one of the two
    """
    given = {name: value for name in ALSO_ARGUMENTS if (value := arguments.get(name)) is not None}
    for name, value in given.items():
        other = getattr(config, name)
        if other is not None and other is not value and other != value:
            raise UserError(f"{name}= and run_config=RunConfig({name}=...) differ: pass one of the two")
    return replace(config, **given) if given else config


@dataclass(slots=True)
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


@dataclass(slots=True)
class RunErrorHandlerInput(Generic[TContext]):
    """Holds what an error handler gets: the error, the context, and the run as far as it came.

    >>> RunErrorHandlerInput(MaxTurnsExceeded("10 turns"), RunContextWrapper("ctx"), run_data=None).context.context
    'ctx'
    """

    error: MaxTurnsExceeded | UsageLimitExceeded | ModelRefusalError | ModelBehaviorError
    context: RunContextWrapper[TContext]
    run_data: Any


@dataclass(slots=True)
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
