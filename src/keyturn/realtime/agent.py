"""An agent that is talked to, as users declare it: instructions, tools, and agents to hand over to.

It says nothing of a model or a voice: those are the session's, since they last over a handoff.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Generic

from ..agents.agent import Agent
from ..agents.agent_base import MCPConfig, ToolSource
from ..agents.agent_rules import AGENT_RULES
from ..agents.context import RunContextWrapper, TContext
from ..agents.guardrail import OutputGuardrail
from ..agents.handoff import Handoff, OnHandoff, handoff
from ..agents.hooks import AgentHooksBase, RunHooksBase
from ..agents.prompt import DynamicPromptFunction, Prompt
from ..core.errors import UserError
from ..core.settable import Constructed, Rule
from ..tools.agent_tool import AgentTool
from ..tools.base import ToolLike

RealtimeAgentHooks = AgentHooksBase[TContext, "RealtimeAgent[Any]"]
RealtimeRunHooks = RunHooksBase[TContext, "RealtimeAgent[Any]"]

_SETTINGS = (
    "name", "instructions", "prompt", "handoff_description", "handoffs", "tools", "mcp_servers", "mcp_config",
    "output_guardrails", "hooks",
)  # fmt: skip


def _unless_bare(why: str) -> Rule:
    """Make the rule that a setting of other agents, which has no effect on this kind, is not set."""

    def rule(owner: Any, name: str, value: Any) -> Any:
        checked = AGENT_RULES[name](owner, name, value)
        if checked != getattr(_BARE, name):
            raise AttributeError(f"{name!r} of {owner._described()} cannot be set: {why}")
        return checked

    return rule


_BARE: Agent[Any] = Agent("bare")


class RealtimeAgent(Agent[TContext], Constructed, Generic[TContext]):
    """Declares an agent that is talked to in a session, with tools that may wait for people.

    >>> RealtimeAgent("Support", instructions="Help in few words.").clone(name="Sales").instructions
    'Help in few words.'
    """

    realtime: ClassVar[bool] = True
    _rules = AGENT_RULES | {
        **dict.fromkeys(
            ("model", "model_settings"), _unless_bare("RealtimeRunner(model=..., config=...) has the model")
        ),
        "input_guardrails": _unless_bare("what is said reaches the model at once; use output_guardrails"),
        **dict.fromkeys(("output_type", "tool_use_behavior", "reset_tool_choice"), _unless_bare("its model talks on")),
    }

    def __init__(
        self,
        name: str,
        handoff_description: str | None = None,
        tools: Sequence[ToolLike] | None = None,
        mcp_servers: Sequence[ToolSource] | None = None,
        mcp_config: MCPConfig | None = None,
        instructions: str
        | Callable[[RunContextWrapper[TContext], Any], str | Awaitable[str | None] | None]
        | None = None,
        prompt: Prompt | DynamicPromptFunction | None = None,
        handoffs: list[RealtimeAgent[Any] | Handoff[Any, Any]] | None = None,
        output_guardrails: list[OutputGuardrail[Any]] | None = None,
        hooks: AgentHooksBase[TContext, Any] | None = None,
    ) -> None:
        super().__init__(
            name,
            instructions,
            prompt,
            handoff_description,
            [] if handoffs is None else handoffs,  # type: ignore[arg-type]  # a list of agents of this very kind
            tools=[] if tools is None else tools,
            mcp_servers=[] if mcp_servers is None else mcp_servers,
            mcp_config=MCPConfig() if mcp_config is None else mcp_config,
            output_guardrails=[] if output_guardrails is None else output_guardrails,
            hooks=hooks,
        )

    def clone(self, **changes: Any) -> RealtimeAgent[TContext]:
        """Copy the agent with some settings changed."""
        unknown = sorted(changes.keys() - set(_SETTINGS))
        if unknown:
            raise TypeError(f"a RealtimeAgent has no setting {unknown[0]!r}; it has {', '.join(_SETTINGS)}")
        return type(self)(**{name: getattr(self, name) for name in _SETTINGS} | changes)

    def as_tool(self, *_given: Any, **_named: Any) -> AgentTool:
        """Refuse: an agent that is talked to answers no call."""
        raise UserError(
            f"agent {self.name!r} is a RealtimeAgent and cannot be a tool; make an Agent for the tool instead"
        )


def realtime_handoff(
    agent: RealtimeAgent[Any],
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: OnHandoff | None = None,
    input_type: type[Any] | None = None,
    is_enabled: bool | Callable[[Any, Any], bool | Awaitable[bool]] = True,
) -> Handoff[Any, RealtimeAgent[Any]]:
    """Make a handoff to an agent that is talked to, with a callback or an input of its own.

    >>> realtime_handoff(RealtimeAgent("Billing")).tool_name
    'transfer_to_billing'
    """
    return handoff(
        agent,
        tool_name_override,
        tool_description_override,
        on_handoff,
        input_type,
        is_enabled=is_enabled,
    )
