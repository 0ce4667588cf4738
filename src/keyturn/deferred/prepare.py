"""Prepare a run of an agent: what it goes on from, what was answered, and the options of the one runner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from ..agents.agent import Agent as CoreAgent
from ..agents.settings import RunConfig
from ..core.errors import UserError
from ..core.items import Item
from ..core.settable import unexpected
from ..core.usage import Usage
from ..engine.result import RunResult
from ..engine.states.state import RunState
from ..models.base import ModelSettings
from ..support.user_code import answer_of
from ..tools.context import ToolContext
from .absent import ABSENT
from .conversation import user_item
from .deciding import decide, requests_of
from .history import History, read_history
from .messages import ModelMessage, ModelRequest, UserPromptPart
from .requests import DeferredHandler, DeferredToolResults, WrongResults


class _NotGiven(int):
    """A turn limit that the caller did not give: a run that goes on keeps its own."""


#: How many replies the model may give in one run, unless `max_turns` says so.
MAX_TURNS = _NotGiven(50)
# How often in a row a handler may answer without the model having said anything in between.
PATIENCE = 20


class Declared(Protocol):
    """What is asked of an agent to prepare a run of it."""

    handle_deferred: DeferredHandler | None
    hooks: Any
    policy: Any
    run_config: RunConfig | None

    def core_now(self, output_type: object = None) -> CoreAgent[Any]:
        """Return the `keyturn.Agent` that runs."""
        ...


@dataclass
class RunArguments:
    """Holds the arguments of `run`."""

    user_prompt: Any = None
    deps: Any = None
    message_history: Any = None
    deferred_tool_results: Any = None
    output_type: Any = None
    model: Any = None
    model_settings: Any = None
    usage: Any = None
    usage_limits: Any = None
    journal: Any = None
    max_turns: int | None = MAX_TURNS

    @classmethod
    def of(cls, user_prompt: Any, options: dict[str, Any]) -> RunArguments:
        """Make it of options by name, or raise `TypeError` for one that there is not."""
        unknown = sorted(set(options) - set(cls.__dataclass_fields__))
        if unknown:
            raise unexpected("run()", unknown[0], cls.__dataclass_fields__, ABSENT.get(unknown[0]))
        return cls(user_prompt, **options)


@dataclass
class PreparedRun:
    """Holds a run that is ready: its agent, its input or state, and the options of `Runner.run`."""

    agent: CoreAgent[Any]
    input: Any
    options: dict[str, Any]
    messages: list[ModelMessage]
    handler: DeferredHandler | None = None
    usage: Usage | None = None
    used: Usage = field(default_factory=Usage)
    _asked: int = 0
    _turns: int = -1

    async def decided_inline(self, result: RunResult) -> RunState[Any] | None:
        """Ask the handler about the calls that wait; None where it leaves all of them open."""
        if self.handler is None or not result.interruptions:
            return None
        state = result.to_state()
        requests = requests_of(state)
        turns = state.live.run.turns
        self._asked = self._asked + 1 if turns == self._turns else 1
        self._turns = turns
        if self._asked > PATIENCE:  # a tool that asks whatever it is told; people may look at it
            return None
        said = await answer_of(self.handler, _handler_context(result), requests)
        if said is None:
            return None
        decide(state, said, note=HANDLED)
        return None if state.undelivered.empty else state

    def count(self, result: RunResult) -> None:
        """Add what the run used to the caller's count."""
        if self.usage is not None:
            self.usage.add(_beyond(result.usage, self.used))


#: What stands in the record of a decision that a handler gave.
HANDLED = "decided by handle_deferred"


def _handler_context(result: RunResult) -> ToolContext[Any]:
    return ToolContext.of(
        result.context_wrapper, tool_name="", tool_call_id="", tool_arguments="", run_id=result.run_id
    )


def _beyond(now: Usage, before: Usage) -> Usage:
    """Return what was used since: a run that goes on counts all of its pauses."""
    more = now.copy()
    more.requests -= before.requests
    more.input_tokens -= before.input_tokens
    more.output_tokens -= before.output_tokens
    more.total_tokens -= before.total_tokens
    more.replies = now.replies[len(before.replies) :]
    return more


async def prepared(agent: Declared, said: RunArguments) -> PreparedRun:
    """Read what `run` was given, or raise `UserError` with the name of what is wrong."""
    _check(said)
    core = agent.core_now(said.output_type)
    history = History(None, [], [])
    if said.message_history is not None:
        history = await read_history(said.message_history, core, said.deps)
    state = history.state
    given = _fresh(said, history) if state is None else _resumed(said, state)
    options = {
        "context": history.deps if said.deps is None else said.deps,
        "hooks": agent.hooks,
        "policy": agent.policy,
        "run_config": _config(agent, said),
        "journal": said.journal,
    }
    if state is None or said.max_turns is not MAX_TURNS:
        options["max_turns"] = said.max_turns if said.max_turns is None else int(said.max_turns)
    used = Usage() if state is None else state.usage
    return PreparedRun(core, given, options, history.messages, agent.handle_deferred, said.usage, used)


def _check(said: RunArguments) -> None:
    if said.usage is not None and not isinstance(said.usage, Usage):
        raise UserError(f"usage is a Usage to add to, not {type(said.usage).__name__}")
    results = said.deferred_tool_results
    if results is not None and not isinstance(results, DeferredToolResults):
        raise WrongResults(f"deferred_tool_results is a DeferredToolResults, not {type(results).__name__}")
    if results is not None and not said.message_history:
        raise WrongResults(
            "deferred_tool_results answers calls of a message_history: pass message_history=result.all_messages()"
        )


def _fresh(said: RunArguments, history: History) -> list[Item]:
    if said.deferred_tool_results is not None:
        raise WrongResults(
            "deferred_tool_results answers pending calls, and message_history has none: pass the whole list that "
            "all_messages() of the paused run returned"
        )
    if said.user_prompt is not None:
        return [*history.items, user_item(said.user_prompt, "user_prompt")]
    last = history.messages[-1] if history.messages else None
    if not isinstance(last, ModelRequest) or not any(isinstance(part, UserPromptPart) for part in last.parts):
        raise UserError("user_prompt is None, and message_history ends with no prompt of a user; give a prompt")
    return history.items


def _resumed(said: RunArguments, state: RunState[Any]) -> RunState[Any]:
    results = said.deferred_tool_results
    if results is None and said.user_prompt is not None:
        raise UserError(
            "calls of message_history wait: answer them with deferred_tool_results= beside the prompt, or give none"
        )
    if results is not None:
        decide(state, results)
    if said.user_prompt is not None:
        state.add_input([user_item(said.user_prompt, "user_prompt")])
    return state


def _config(agent: Declared, said: RunArguments) -> RunConfig:
    """Return the configuration of the agent; what `run` was given replaces it for this run."""
    config = agent.run_config or RunConfig()
    if said.model is not None:
        config = replace(config, model=said.model)
    if said.model_settings is not None:
        own: ModelSettings = config.model_settings or ModelSettings()
        config = replace(config, model_settings=own.resolve(settings_of(said.model_settings)))
    if said.usage_limits is not None:
        config = replace(config, usage_limits=said.usage_limits)
    return config


def settings_of(given: ModelSettings | dict[str, Any] | None) -> ModelSettings:
    """Return model settings, of a dict as well."""
    if given is None or isinstance(given, ModelSettings):
        return given or ModelSettings()
    if not isinstance(cast("object", given), dict):
        raise UserError(f"model_settings is a ModelSettings or a dict, not {type(given).__name__}")
    unknown = sorted(set(given) - set(ModelSettings.__dataclass_fields__))
    if unknown:
        raise UserError(
            f"model_settings has {unknown[0]!r}, which is no setting; extra_body= and extra_args= take others"
        )
    return ModelSettings(**given)


def with_handler(handler: object) -> Callable[..., Any] | None:
    """Return the handler, or refuse what is none."""
    if handler is not None and not callable(handler):
        raise UserError(f"handle_deferred is a function (ctx, requests), not {type(handler).__name__}")
    return handler
