"""The settings under which one frame runs: its configuration, hooks, session and listeners.

The root's scope is what the caller of `Runner` said; a nested frame's is what its agent tool declares, and where that
says nothing the outer frame's configuration. A nested frame inherits the run's policy and never its decisions; a policy
of its own is asked beside those of the frames above it, and never in their place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ...agents.agent import Agent
from ...agents.context import RunContextWrapper
from ...agents.hooks import RunHooks
from ...agents.settings import RunConfig
from ...core.errors import UserError
from ...core.nested_agent import NestedAgent, nested_agent
from ...core.settable import own_of
from ...models import default_provider
from ...models.base import Model, ModelProvider
from ...support.threads import Place, place_of
from ...tools.base import Tool


class FrameSettings(msgspec.Struct, eq=False):
    """Holds the settings of one frame."""

    config: RunConfig
    context: RunContextWrapper[Any]
    hooks: RunHooks[Any] | None = None
    session: Any = None
    conversation_id: str | None = None
    chained: bool = False
    error_handlers: dict[str, Any] | None = None
    tool: Any = None
    # Whether people can be asked who are known: the run is kept where an inbox finds it.
    inbox: bool = False
    # Whether what people signed can be verified here.
    witness: bool = False
    # Says which policy the run is under now, where that may change while it goes on: in an app.
    policy_of: Callable[[], Any] | None = None
    # The frame above, whose policies hold here as well.
    outer: FrameSettings | None = None
    # The policies that agents bring along: those of the frames above, and of the agents that work in this one.
    carried: tuple[Any, ...] = ()
    # What limits how many tools work at the same time: of the frames above, and of this one.
    slots: tuple[asyncio.Semaphore, ...] = ()

    def __post_init__(self) -> None:
        """Count the tools of this frame by themselves, where its own configuration limits them."""
        execution = self.config.tool_execution
        own = self.outer is None or self.config is not self.outer.config
        if own and execution is not None and execution.max_function_tool_concurrency is not None:
            self.slots = (*self.slots, asyncio.Semaphore(execution.max_function_tool_concurrency))

    @asynccontextmanager
    async def slot(self, blocks: bool) -> AsyncGenerator[Place]:
        """Hold a place among the tools that work at the same time; an outer limit holds for nested agents as well.

        What `blocks` has a place among the threads, too.
        """
        async with AsyncExitStack() as held:
            for each in self.slots:
                await held.enter_async_context(each)
            yield held.enter_context(await place_of(blocks))

    @property
    def traced(self) -> bool:
        """Return whether this frame is traced: neither its own configuration nor one above switches that off."""
        return not self.config.tracing_disabled and (self.outer is None or self.outer.traced)

    @property
    def traces_data(self) -> bool:
        """Return whether spans hold what is said in this frame: its own configuration and each above include it."""
        return self.config.trace_include_sensitive_data and (self.outer is None or self.outer.traces_data)

    @property
    def nested(self) -> NestedAgent:
        """Return what the agent of a nested frame runs under, as its tool has it now."""
        return nested_agent(self.tool)

    @property
    def policies(self) -> tuple[Any, ...]:
        """Return every policy that has a say here, the outermost first, and then those that agents bring along."""
        return (*self._stated(), *self.carried)

    @property
    def judges(self) -> tuple[Any, ...]:
        """Return the policies, each with the rules that hold in it now where those may be replaced."""
        policies = self.policies
        if not policies:
            return policies
        return tuple(part for policy in policies for part in (policy, *getattr(policy, "rules_now", ())))

    @property
    def policy(self) -> Any:
        """Return the policy of this frame as it is now; None where it has none of its own."""
        return self.config.policy if self.policy_of is None else self.policy_of()

    def _stated(self) -> tuple[Any, ...]:
        above = () if self.outer is None else self.outer._stated()
        own = self.config.policy if self.policy_of is None else self.policy_of()
        return above if own is None or any(own is policy for policy in above) else (*above, own)

    def carry(self, agent: Agent[Any]) -> None:
        """Let the policy of an agent that works in this frame have its say from now on.

        It takes the place of those that it `replaces`, since they are part of it.
        """
        own = agent.own_policy()
        if own is not None and own not in self.carried:
            replaced = getattr(own, "replaces", ())
            self.carried = (*(policy for policy in self.carried if policy not in replaced), own)

    @property
    def managed(self) -> bool:
        """Return whether the provider keeps the conversation, so that only what is new to it is sent."""
        return self.conversation_id is not None or self.chained

    def check_session(self) -> None:
        """Refuse a session of a conversation that the provider keeps."""
        if self.session is not None and self.managed:
            raise UserError("a session and a conversation kept by the provider exclude each other; pass one of them")

    def inner(self, tool: Tool) -> FrameSettings:
        """Return the settings of the frame that an agent tool opens."""
        nested = nested_agent(tool)
        config = self.config
        if nested.run_config is not None:
            config = RunConfig.of(nested.run_config)
            config = replace(config, model_provider=config.model_provider or self.config.model_provider)
        context = self.context.around(self.context.context)
        return FrameSettings(
            config,
            context,
            nested.hooks,
            nested.session,
            nested.conversation_id,
            nested.previous_response_id is not None,
            tool=tool,
            inbox=self.inbox,
            witness=self.witness,
            policy_of=None if nested.run_config is not None else self.policy_of,
            outer=self,
            carried=self.carried,
            slots=self.slots,
        )


def model_for(agent: Agent[Any], config: RunConfig) -> Model:
    """Return the model that answers for an agent."""
    wanted = config.model if config.model is not None else agent.model
    if isinstance(wanted, Model):
        return wanted
    provider: ModelProvider = config.model_provider or default_provider()
    return provider.get_model(wanted)


def _names(tool: Tool) -> tuple[Any, ...]:
    return (tool.name, None if tool.call_field is None else getattr(tool, tool.call_field))


@dataclass
class Toolset:
    """Holds what an agent may call, by the type and name under which the model calls it."""

    agent: str
    tools: list[Any]
    handoffs: list[Any]
    by_key: dict[tuple[str, str], Tool] = field(default_factory=dict[tuple[str, str], Tool])
    fields: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def __post_init__(self) -> None:
        for tool in (*self.tools, *self.handoffs):
            if isinstance(tool, Tool):
                self._add(tool)
            elif not isinstance(getattr(tool, "name", None), str):  # it was put into the list after the agent was made
                raise UserError(f"tools of agent {self.agent!r}: {tool!r} is no tool: decorate it with @function_tool")

    def is_of(self, tools: list[Any], handoffs: list[Any]) -> bool:
        """Return whether it is of these, and none has another name by now than the one under which it is found here."""
        if self.tools != tools or self.handoffs != handoffs:
            return False
        for key, tool in self.by_key.items():  # noqa: SIM110  # once a turn: a loop is half a generator
            if key[1] != tool.name and key[1] not in _names(tool):
                return False
        return True

    def _add(self, tool: Tool) -> None:
        named = tool.name if tool.call_field is None else getattr(tool, tool.call_field)
        keys = [(tool.call_type, named)]
        if tool.also_function:
            keys.append(("function_call", tool.name))
        for key in keys:
            if key in self.by_key:
                raise UserError(f"two tools of this agent are called {tool.name!r}; give one of them another name")
            self.by_key[key] = tool
        self.fields[tool.call_type] = tool.call_field

    def find(self, call: Mapping[str, Any]) -> Tool | None:
        """Return the tool that a call means.

        A call that names none means the only tool of its type, or none.
        """
        kind: str = call.get("type", "function_call")
        named_by = self.fields.get(kind, "name")
        name = call.get(named_by) if named_by is not None else None
        if name is not None:
            return self.by_key.get((kind, name)) if isinstance(name, str) else None
        alike = [tool for (other, _name), tool in self.by_key.items() if other == kind]
        return alike[0] if len(alike) == 1 else None


def toolset_of(agent: Agent[Any], path: str, tools: list[Any], handoffs: list[Any]) -> Toolset:
    """Return what an agent may call: the one made before, where it is of the same tools under the same names."""
    known: Toolset | None = own_of(agent).get("_toolset")
    if known is None or known.agent != path or not known.is_of(tools, handoffs):
        known = own_of(agent)["_toolset"] = Toolset(path, tools, handoffs)
    return known
