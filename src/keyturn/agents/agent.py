"""An agent as users declare it, checked when it is declared.

An agent is an object with settings. It holds no state of any run, so that one agent serves many runs at once;
what it does in a run is the engine's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, TypedDict

from ..constructors import settings
from ..models.base import Model, ModelSettings
from ..tools.agent_tool import AgentTool
from ..tools.agent_tool_rules import InputBuilder
from ..tools.base import NeedsApproval, ToolLike
from ..tools.functions.bound import ToolErrorFunction, default_tool_error_function
from ..tools.functions.options import IsEnabled
from .agent_base import AgentBase, MCPConfig, ToolSource, check_names, snake_name
from .agent_rules import AGENT_RULES
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


@dataclass(slots=True)
class ToolsToFinalOutputResult:
    """Holds what a `tool_use_behavior` callable returns for a turn's tool results.

    >>> ToolsToFinalOutputResult(is_final_output=True, final_output="booked").final_output
    'booked'
    """

    is_final_output: bool
    final_output: Any = None


@dataclass(slots=True)
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


@settings(eq=False)
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
    _rules = AGENT_RULES

    def _described(self) -> str:
        """Return what errors call it."""
        return f"agent {vars(self).get('name', '')!r}"

    def _refusal(self, name: str, may_be: str, value: object) -> Exception:
        """Return the error for a value that an attribute cannot have."""
        return TypeError(f"Agent {name} must be {may_be}, got {type(value).__name__}")

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
        run_config: object = None,
        max_turns: int | None = None,
        hooks: object = None,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        session: object = None,
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
