"""An agent as users declare it, checked when it is declared.

An agent is an object with settings. It holds no state of any run, so that one agent serves many runs at once;
what it does in a run is the engine's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import isfunction
from typing import Any, ClassVar, Generic, Literal, Protocol, TypedDict, cast, get_origin

from ..core.errors import UserError
from ..models.base import Model, ModelSettings
from ..tools.agent_tool import AgentTool, InputBuilder
from ..tools.base import NeedsApproval, ToolLike
from ..tools.functions.bound import ToolErrorFunction, default_tool_error_function
from ..tools.functions.options import IsEnabled
from .agent_base import AgentBase, MCPConfig, ToolSource, check_names, snake_name
from .context import RunContextWrapper, TContext
from .guardrail import InputGuardrail, OutputGuardrail
from .handoff import Handoff
from .hooks import AgentHooksBase
from .output import AgentOutputSchemaBase
from .prompt import DynamicPromptFunction, Prompt, check_instructions, resolved_prompt, system_prompt

__all__ = [
    "Agent",
    "AgentBase",
    "FunctionToolResult",
    "MCPConfig",
    "StopAtTools",
    "ToolsToFinalOutputFunction",
    "ToolsToFinalOutputResult",
    "check_names",
]


class StopAtTools(TypedDict):
    """Lists tools for a `tool_use_behavior`: the first result of one of them is the final output.

    >>> StopAtTools(stop_at_tool_names=["book"])
    {'stop_at_tool_names': ['book']}
    """

    stop_at_tool_names: list[str]


@dataclass
class ToolsToFinalOutputResult:
    """Holds what a `tool_use_behavior` callable returns for a turn's tool results.

    >>> ToolsToFinalOutputResult(is_final_output=True, final_output="booked").final_output
    'booked'
    """

    is_final_output: bool
    final_output: Any = None


@dataclass
class FunctionToolResult:
    """Holds one tool's result, as a `tool_use_behavior` callable gets it.

    >>> FunctionToolResult(tool=None, output="42", run_item=None).output
    '42'
    """

    tool: Any
    output: Any
    run_item: Any
    interruptions: list[Any] = field(default_factory=list[Any])
    agent_run_result: Any = None


ToolsToFinalOutputFunction = Callable[
    [RunContextWrapper[Any], list[FunctionToolResult]],
    ToolsToFinalOutputResult | Awaitable[ToolsToFinalOutputResult],
]


class AgentDeclaration(Protocol):
    """Declares an agent in another way: one of `keyturn.deferred` or `keyturn.deep`."""

    def core_agent(self) -> Agent[Any]:
        """Return the agent that it is."""
        ...


@dataclass(eq=False)
class Agent(AgentBase[TContext], Generic[TContext]):
    """Declares a model with instructions, tools and other agents to hand over to.

    >>> agent = Agent(name="Support", instructions="Help politely.")
    >>> agent.clone(name="Sales").instructions
    'Help politely.'
    """

    name: str
    instructions: (
        str | Callable[[RunContextWrapper[TContext], Agent[TContext]], str | Awaitable[str | None] | None] | None
    ) = None
    prompt: Prompt | DynamicPromptFunction | None = None
    handoff_description: str | None = None
    handoffs: list[Agent[Any] | Handoff[Any, Any]] = field(default_factory=list[Any])
    model: str | Model | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    tools: Sequence[ToolLike] = field(default_factory=list[ToolLike])
    mcp_servers: Sequence[ToolSource] = field(default_factory=list[ToolSource])
    mcp_config: MCPConfig = field(default_factory=MCPConfig)
    input_guardrails: list[InputGuardrail[Any]] = field(default_factory=list[InputGuardrail[Any]])
    output_guardrails: list[OutputGuardrail[Any]] = field(default_factory=list[OutputGuardrail[Any]])
    output_type: type[Any] | AgentOutputSchemaBase | Any = None
    hooks: AgentHooksBase[TContext, Any] | None = None
    tool_use_behavior: Literal["run_llm_again", "stop_on_first_tool"] | StopAtTools | ToolsToFinalOutputFunction = (
        "run_llm_again"
    )
    reset_tool_choice: bool = True

    #: Whether its model is talked to and goes on talking while calls wait, as that of a `RealtimeAgent` is.
    realtime: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_types(vars(self))
        _check_entries(self)

    def clone(self, **changes: Any) -> Agent[TContext]:
        """Copy the agent with some settings changed.

        Lists are shared unless they are among the changes.
        """
        made = replace(self, **changes)
        if (kind := vars(self).get("__orig_class__")) is not None:  # Agent[Ctx]
            vars(made)["__orig_class__"] = kind
        return made

    def as_tool(
        self,
        tool_name: str | None,
        tool_description: str | None,
        custom_output_extractor: Callable[[Any], Any] | None = None,
        is_enabled: IsEnabled = True,
        on_stream: Callable[[Any], Any] | None = None,
        run_config: Any = None,
        max_turns: int | None = None,
        hooks: Any = None,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        session: Any = None,
        failure_error_function: ToolErrorFunction | None = default_tool_error_function,
        needs_approval: NeedsApproval = False,
        parameters: type[Any] | None = None,
        input_builder: InputBuilder | None = None,
        include_input_schema: bool = False,
        on_stream_max_pending_events: int | None = 1024,
    ) -> AgentTool:
        """Make this agent a tool of another: it answers one call and the other agent goes on.

        Where more events than `on_stream_max_pending_events` wait for `on_stream`, the call fails; None is no limit.

        >>> Agent("Contract expert").as_tool(None, "Asks the expert.", needs_approval=True).name
        'contract_expert'
        """
        return AgentTool(
            self,
            snake_name(self.name) if tool_name is None else tool_name,
            tool_description or "",
            custom_output_extractor=custom_output_extractor,
            is_enabled=is_enabled,
            on_stream=on_stream,
            run_config=run_config,
            max_turns=max_turns,
            hooks=hooks,
            previous_response_id=previous_response_id,
            conversation_id=conversation_id,
            session=session,
            failure_error_function=failure_error_function,
            needs_approval=needs_approval,
            parameters=parameters,
            input_builder=input_builder,
            include_input_schema=include_input_schema,
            on_stream_max_pending_events=on_stream_max_pending_events,
        )

    async def get_system_prompt(self, run_context: RunContextWrapper[TContext]) -> str | None:
        """Return the instructions for this run."""
        if isinstance(self.instructions, str):
            return self.instructions
        # Looked at once per function: reading a signature costs more than calling it.
        if self.__dict__.get("_checked") is not self.instructions:
            check_instructions(self.instructions)
            self.__dict__["_checked"] = self.instructions
        return await system_prompt(self.instructions, run_context, self)

    async def get_prompt(self, run_context: RunContextWrapper[TContext]) -> dict[str, Any] | None:
        """Return the provider's prompt for this run."""
        return await resolved_prompt(self.prompt, run_context, self)


_LISTS = ("tools", "handoffs", "mcp_servers", "input_guardrails", "output_guardrails")
_TYPES: dict[str, tuple[Any, str]] = {
    "name": (str, "a string"),
    "handoff_description": (str | None, "a string or None"),
    "model": (str | Model | None, "a string, Model, or None"),
    "model_settings": (ModelSettings, "a ModelSettings instance"),
    "mcp_config": (dict, "a dict"),
    "hooks": (AgentHooksBase | None, "an AgentHooks instance or None"),
    "reset_tool_choice": (bool, "a boolean"),
    **dict.fromkeys(_LISTS, (list, "a list")),
}


def _check_types(settings: dict[str, Any]) -> None:
    for setting, (wanted, what) in _TYPES.items():
        if not isinstance(settings[setting], wanted):
            raise _wrong(setting, what, settings[setting])
    instructions, prompt = settings["instructions"], settings["prompt"]
    if instructions is not None and not isinstance(instructions, str) and not callable(instructions):
        raise _wrong("instructions", "a string, callable, or None", instructions)
    if prompt is not None and not isinstance(prompt, dict) and not callable(prompt):
        raise _wrong("prompt", "a Prompt, callable, or None", prompt)
    output_type = settings["output_type"]
    if not isinstance(output_type, type | AgentOutputSchemaBase | None) and get_origin(output_type) is None:
        raise _wrong("output_type", "a type, AgentOutputSchemaBase, or None", output_type)
    if not _is_behavior(settings["tool_use_behavior"]):
        what = "'run_llm_again', 'stop_on_first_tool', StopAtTools dict, or callable"
        raise _wrong("tool_use_behavior", what, settings["tool_use_behavior"])


def _wrong(setting: str, what: str, value: Any) -> TypeError:
    return TypeError(f"Agent {setting} must be {what}, got {type(value).__name__}")


def _is_behavior(behavior: Any) -> bool:
    if isinstance(behavior, dict):
        names: Any = cast("dict[str, Any]", behavior).get("stop_at_tool_names")
        return isinstance(names, list) and all(isinstance(name, str) for name in cast("list[Any]", names))
    return behavior in ("run_llm_again", "stop_on_first_tool") or callable(behavior)


def _check_entries(agent: Agent[Any]) -> None:
    """Refuse what is easily put into the wrong list, or forgotten to be wrapped."""
    for tool in agent.tools:
        if isinstance(tool, AgentBase):
            raise UserError(f"tools of agent {agent.name!r}: an agent is no tool by itself: use its as_tool(...)")
        if isfunction(tool):
            remedy = "decorate it with @function_tool"
            raise UserError(f"tools of agent {agent.name!r}: {tool.__name__!r} is a plain function: {remedy}")
        if not isinstance(getattr(tool, "name", None), str):
            remedy = "decorate a function with @function_tool, or subclass keyturn.Tool"
            raise UserError(f"tools of agent {agent.name!r}: {tool!r} is no tool: {remedy}")
    for entry in agent.handoffs:
        if not isinstance(cast("Any", entry), Agent | Handoff):
            raise UserError(
                f"handoffs of agent {agent.name!r}: an entry must be an Agent or a Handoff, not {type(entry).__name__}"
            )
    for setting, wanted in (("input_guardrails", InputGuardrail), ("output_guardrails", OutputGuardrail)):
        for entry in cast("list[Any]", getattr(agent, setting)):
            if not isinstance(entry, wanted):
                remedy = f"decorate it with @{wanted.__name__.replace('Guardrail', '_guardrail').lower()}"
                raise UserError(f"{setting} of agent {agent.name!r}: {entry!r} is not an {wanted.__name__}: {remedy}")
