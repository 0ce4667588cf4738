"""An agent in the way of Pydantic AI, over the same agents, tools, gate and log as all others.

It builds a `keyturn.Agent`, reads the history that it is given, says results on the state of the run, and drives the
one loop through `Runner`. It decides nothing and runs no tool.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Generic, cast
from weakref import WeakSet

from ..agents.agent import Agent as CoreAgent
from ..agents.hooks import RunHooks
from ..agents.limits import UsageLimits
from ..agents.settings import RunConfig
from ..core.digest import digest
from ..core.errors import UserError
from ..core.settable import CALLBACK, Constructed, Rule, described, made_by, must, own_of, refused, then
from ..core.usage import Usage
from ..engine.result import RunResult
from ..engine.run.blocking import waited_for
from ..engine.runner import Runner
from ..journal.base import Journal
from ..models.base import Model, ModelSettings
from ..policies.base import PolicyLike
from ..tools.base import ToolLike
from ..tools.context import TContext
from .absent import ABSENT, advice
from .declaring import DeclaresTools, Function
from .instructions import Instructions
from .output import answer_type
from .prepare import MAX_TURNS, PreparedRun, RunArguments, prepared, settings_of, with_handler
from .requests import DeferredHandler, DeferredToolResults
from .result import AgentRunResult, OutputT
from .stream import DeferredEventStream, StreamedRunResult, events_of
from .tool import as_tool
from .toolset import ToolsetLike, parts_of


def _follow(name: str) -> Callable[[Any, Any], None]:
    """Let the agents that were made of one have a setting as it is now."""

    def renew(agent: object, value: object) -> None:
        for core in own_of(agent)["_cores"]:
            setattr(core, name, value)

    return renew


def _answer(_agent: object, _name: str, value: object) -> Any:
    answer_type(value)
    return value


def _name(_agent: object, _name: str, value: object) -> Any:
    if value is not None and not isinstance(value, str):
        raise UserError(f"name of an agent must be a string or None, not {value!r}")
    return value


def _is_model(value: object) -> bool:
    return isinstance(value, str | Model | None)


#: What only an agent's own `run()` reads, and what to do for runs that others begin.
_FOR_OWN_RUNS = {
    "policy": "give it to App(policy=...) or Runner.run(policy=...)",
    "hooks": "give them to App(hooks=...) or Runner.run(hooks=...)",
    "run_config": "give it, or its usage_limits=, to App(run_config=RunConfig(...)) or Runner.run(run_config=...)",
    "handle_deferred": "leave it out: calls of an app are decided in its inbox, those of Runner.run on the state",
}


def _for_own_runs(rule: Rule) -> Rule:
    """Refuse a setting of an agent's own runs while others run the agent, who would go on without it."""

    def checked(agent: object, name: str, value: object) -> Any:
        made = rule(agent, name, value)
        if made is not None and own_of(agent).get("_taken"):
            raise AttributeError(f"{name!r} of {described(agent)} cannot be set: {_ALONE}; {_FOR_OWN_RUNS[name]}")
        return made

    return checked


_ALONE = "only its own run() reads it, and an app or another agent has its core_agent()"
_BY_DECORATOR = "decorate a function with it, or make the agent with it"
AGENT_RULES: dict[str, Rule] = {
    "model": then(must(_is_model, "a string, a Model or None"), _follow("model")),
    "model_settings": then(made_by(settings_of), _follow("model_settings")),
    "output_type": _answer,
    "name": _name,
    "handle_deferred": _for_own_runs(made_by(with_handler)),
    "hooks": _for_own_runs(must(lambda value: isinstance(value, RunHooks | None), "RunHooks or None")),
    "policy": _for_own_runs(CALLBACK),
    "run_config": _for_own_runs(must(lambda value: isinstance(value, RunConfig | None), "a RunConfig or None")),
    **dict.fromkeys(("instructions", "system_prompt", "tool", "tool_plain"), refused(_BY_DECORATOR)),
}


class Agent(DeclaresTools, Constructed, Generic[TContext, OutputT]):
    """Declares a model with instructions and tools; a run that requires a decision returns `DeferredToolRequests`.

    >>> from keyturn.testing import ScriptedModel, function_call
    >>> agent = Agent(ScriptedModel([[function_call("pay", {"amount": 3}, call_id="c1")], "Paid."]))
    >>> @agent.tool_plain(requires_approval=True)
    ... def pay(amount: int) -> str:
    ...     return f"paid {amount}"
    >>> waits = agent.run_sync("Pay 3.")
    >>> waits.output.approvals[0].args
    {'amount': 3}
    >>> results = DeferredToolResults(approvals={"c1": True})
    >>> agent.run_sync(message_history=waits.all_messages(), deferred_tool_results=results).output
    'Paid.'
    """

    takes_context = True
    model: str | Model | None
    output_type: Any
    deps_type: Any
    name: str | None
    model_settings: ModelSettings
    handle_deferred: Callable[..., Any] | None
    hooks: RunHooks[Any] | None
    policy: PolicyLike | None
    run_config: RunConfig | None
    _rules = AGENT_RULES
    _remedies: ClassVar[Mapping[str, str]] = ABSENT
    _cores: WeakSet[CoreAgent[Any]]  # all that were made of it
    _taken: WeakSet[CoreAgent[Any]]  # those of them that others run

    def __init__(
        self,
        model: str | Model | None = None,
        *,
        output_type: Any = str,
        instructions: Any = None,
        system_prompt: str | Sequence[str] = (),
        deps_type: type[TContext] | Any = None,
        name: str | None = None,
        model_settings: ModelSettings | dict[str, Any] | None = None,
        tools: Sequence[ToolLike | Callable[..., Any]] = (),
        toolsets: Sequence[ToolsetLike] = (),
        handle_deferred: DeferredHandler | None = None,
        hooks: RunHooks[Any] | None = None,
        policy: PolicyLike | None = None,
        run_config: RunConfig | None = None,
    ) -> None:
        self._cores = WeakSet()
        self._taken = WeakSet()
        self.model = model
        self.output_type = output_type
        self.deps_type = deps_type
        self.name = name
        self.model_settings = cast("Any", model_settings)
        self.handle_deferred = cast("Any", handle_deferred)
        self.hooks = hooks
        self.policy = policy
        self.run_config = run_config
        self._instructions = Instructions(instructions, system_prompt)
        self._tools: list[ToolLike] = [as_tool(each, "tools") for each in tools]
        self._toolsets = list(toolsets)
        self.core_now()

    def __getattr__(self, name: str) -> Any:
        remedy = "" if name.startswith("_") else advice(name, dir(type(self)))
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}" + (f": {remedy}" if remedy else ""))

    # ------------------------------------------------------------------------------------------------ declaring

    def add_tool(self, tool: ToolLike) -> None:
        """Add a tool of any kind; a second one of a name is refused."""
        self._tools.append(tool)
        try:
            self._renew()
        except UserError:
            self._tools.pop()
            raise

    def instructions(self, function: Function, /) -> Function:
        """Add a function that gives instructions: `(ctx)` or `()`, sync or async."""
        self._instructions.add(function)
        return function

    def system_prompt(self, function: Function, /) -> Function:
        """Add a function that gives instructions; the same as `instructions`."""
        return self.instructions(function)

    def core_agent(self, output_type: object = None) -> CoreAgent[TContext]:
        """Return the `keyturn.Agent` that this one is, with the tools declared so far.

        It is refused while this agent has a setting that only its own `run()` reads.
        """
        core = self.core_now(output_type)
        for setting, remedy in _FOR_OWN_RUNS.items():
            if getattr(self, setting) is not None:
                raise UserError(
                    f"agent {core.name!r} has {setting}=, which its own run() reads and an app, a Runner or another "
                    f"agent does not: {remedy}"
                )
        self._taken.add(core)
        return core

    def core_now(self, output_type: object = None) -> CoreAgent[TContext]:
        """Return the `keyturn.Agent` that its own runs run."""
        answer = answer_type(self.output_type if output_type is None else output_type)
        made = CoreAgent[TContext](self.name or self._known_by(), self._instructions.text, **self._now())
        made.output_type = answer
        self._cores.add(made)
        return made

    def _now(self) -> dict[str, Any]:
        """Return what agents made of this one have of it, as it is now."""
        tools, sources = parts_of(self._toolsets)
        return {
            "model": self.model,
            "model_settings": self.model_settings,
            "tools": checked_names([*self._tools, *tools]),
            "mcp_servers": sources,
        }

    def _renew(self) -> None:
        """Let the agents that were made of this one, such as an app's, have what it has now."""
        now = self._now()
        for core in self._cores:
            for name, value in now.items():
                setattr(core, name, value)

    def _known_by(self) -> str:
        """Return the name of an agent that has none: it is known by its instructions, so that histories do not mix."""
        said = self._instructions.known_by()
        return f"agent-{digest(said)[:8]}" if said else "agent"

    # -------------------------------------------------------------------------------------------------- running

    async def run(
        self,
        user_prompt: str | Sequence[Any] | None = None,
        *,
        deps: TContext | Any = None,
        message_history: Sequence[Any] | None = None,
        deferred_tool_results: DeferredToolResults | None = None,
        output_type: Any = None,
        model: str | Model | None = None,
        model_settings: ModelSettings | dict[str, Any] | None = None,
        usage: Usage | None = None,
        usage_limits: UsageLimits | None = None,
        journal: Journal | str | None = None,
        max_turns: int | None = MAX_TURNS,
    ) -> AgentRunResult[OutputT]:
        """Run on a prompt, or go on from a history, until there is an answer or calls wait.

        `deferred_tool_results` answers calls for which the history waits; a prompt beside it is read after those.
        `usage` is added to. `journal` keeps the run, so that an answer counts once in all processes.
        """
        before = await prepared(self, RunArguments(**_said(locals())))
        result = await self._finish(before)
        return AgentRunResult(result, before.messages)

    async def _finish(self, before: PreparedRun) -> RunResult:
        given = before.input
        while True:
            result = await Runner.run(before.agent, given, **before.options)
            state = await before.decided_inline(result)
            if state is None:
                before.count(result)
                return result
            given = state

    def run_sync(self, user_prompt: str | Sequence[Any] | None = None, **options: Any) -> AgentRunResult[OutputT]:
        """Run like `run`, without `await`; this works inside a notebook's running loop too."""
        return waited_for(self.run(user_prompt, **options))

    @asynccontextmanager
    async def run_stream(
        self, user_prompt: str | Sequence[Any] | None = None, **options: Any
    ) -> AsyncGenerator[StreamedRunResult]:
        """Run like `run`, and stream: `async with agent.run_stream(...) as result`."""
        before = await prepared(self, RunArguments.of(user_prompt, options))
        made = StreamedRunResult(before)
        try:
            yield made
        finally:
            await made.aclose()

    def run_stream_events(self, user_prompt: str | Sequence[Any] | None = None, **options: Any) -> DeferredEventStream:
        """Run like `run`, and yield what happens, read by `async for` or in an `async with`.

        The last event is an `AgentRunResultEvent`.
        """
        return DeferredEventStream(self._events(user_prompt, options))

    async def _events(self, user_prompt: object, options: dict[str, Any]) -> AsyncGenerator[Any]:
        before = await prepared(self, RunArguments.of(user_prompt, options))
        events = events_of(StreamedRunResult(before))
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()


def _said(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "self"}


def checked_names(tools: list[ToolLike]) -> list[ToolLike]:
    """Refuse two tools of one name: a person could be shown one and the other would run."""
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise UserError(f"two tools have the name {tool.name!r}; give one of them another name")
        seen.add(tool.name)
    return tools
