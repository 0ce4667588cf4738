"""Make the execution of what a caller gives: a new run, or a state that is resumed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from ..agents.agent import Agent
from ..agents.hooks import RunHooks
from ..agents.limits import DEFAULT_MAX_TURNS, DefaultLimit
from ..agents.settings import RunConfig, check_error_handlers, with_arguments
from ..core.errors import AgentMissing, NotPending, UserError
from ..core.people import plain_text
from ..journal import opened
from ..journal.base import Journal
from ..support.user_code import contained
from .execution import Execution, TurnLimit
from .result import RunResult
from .run.agents import AgentGraph
from .run.frame_settings import FrameSettings
from .run.open_run import OpenRun, wrapped
from .starting import QUEUE
from .states.resumable import check_resumable
from .states.state import RunState
from .stream import RunResultStreaming

_NOT_GIVEN = (
    "context", "hooks", "run_config", "error_handlers", "previous_response_id", "conversation_id", "session",
    "journal", "policy", "usage_limits", "policy_of", "requester",
)  # fmt: skip
_KEPT_BY_PROVIDER = ("conversation_id", "previous_response_id", "auto_previous_response_id")
_DEFAULTS: dict[str, Any] = dict.fromkeys(_NOT_GIVEN) | {
    "max_turns": DEFAULT_MAX_TURNS,
    "auto_previous_response_id": False,
    "execution": Execution,
}


def play_of(starting_agent: Agent[Any], input: object, **options: Any) -> Execution:
    """Make the execution of an input or a state; the options are those of `Runner.run`, and have its defaults."""
    with contained:  # what is given is looked at, and may be of any class
        return _play_of(starting_agent, input, _DEFAULTS | options)


def _play_of(starting_agent: Agent[Any], input: object, given: dict[str, Any]) -> Execution:
    if isinstance(input, RunResult | RunResultStreaming):
        input = input.to_state()
    config = with_arguments(RunConfig.of(given["run_config"]), given)
    _check_given(given)
    if isinstance(input, RunState):
        return _resumed(starting_agent, cast("RunState[Any]", input), config, given)
    return _fresh(starting_agent, input, config, given)


def _check_given(given: dict[str, Any]) -> None:
    """Refuse at once options that would only fail later."""
    check_error_handlers(given["error_handlers"])
    hooks = given["hooks"]
    session = given["session"]
    limit = given["max_turns"]
    if hooks is not None and not isinstance(hooks, RunHooks):
        raise UserError(f"hooks must be RunHooks, not {type(hooks).__name__}; AgentHooks belong to Agent(hooks=...)")
    kept = next((name for name in _KEPT_BY_PROVIDER if given[name]), None)
    if session is not None and kept is not None:
        raise UserError(f"session= and {kept}= exclude each other, as the provider keeps the conversation; pass one")
    if session is not None and not (callable(getattr(session, "get_items", None)) and hasattr(session, "add_items")):
        raise UserError(f"session must have get_items and add_items, and a {type(session).__name__} has not")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise UserError(f"max_turns must be a whole number, 0 or more, or None for no limit, not {limit!r}")


def _fresh(agent: Agent[Any], input: object, config: RunConfig, given: dict[str, Any]) -> Execution:
    if not isinstance(agent, Agent):
        raise UserError(f"Runner runs an Agent, not a {type(agent).__name__}")
    if agent.realtime and given["execution"] is Execution:
        raise UserError(f"agent {agent.name!r} is a RealtimeAgent: run it with a RealtimeRunner")
    if not isinstance(input, str | list):
        raise UserError(f"a run's input is a text, a list of items or a RunState, not a {type(input).__name__}")
    limit = given["max_turns"]
    state: RunState[Any] = RunState(
        agent.own_context() if given["context"] is None else given["context"],
        cast("str | list[Any]", input),
        agent,
        None if limit is None else int(limit),
        conversation_id=given["conversation_id"],
        previous_response_id=given["previous_response_id"],
        auto_previous_response_id=given["auto_previous_response_id"],
    )
    live = state.live
    live.journal = _journal(given["journal"])
    live.session = given["session"]
    if live.session is not None and live.journal is None and config.paused_session == QUEUE:
        raise UserError(
            'paused_session="queue" needs journal=, in which the run is queued; without one choose '
            '"supersede" or "refuse"'
        )
    live.policy = config.policy
    live.handed_out = False
    _request_for(state, given["requester"])
    return given["execution"](live, _scope(live, config, given, state.undelivered.start or {}), state, None)


def _resumed(agent: Agent[Any], state: RunState[Any], config: RunConfig, given: dict[str, Any]) -> Execution:
    live = state.live
    before = live.attached
    try:
        play = _attached(agent, state, config, given)
        check_resumable(live, play.scope, play.said)
    except BaseException:
        live.detach(live.attached, before)
        raise
    play.before = before
    return play


def _attached(agent: Agent[Any], state: RunState[Any], config: RunConfig, given: dict[str, Any]) -> Execution:
    """Attach to a run what its caller gives at a resume, and make the execution of both."""
    live = state.live
    _request_for(state, given["requester"])
    _attach_agent(live, agent)
    named = given["conversation_id"]
    if named is not None and live.run.status != "new" and named != live.run.about.get("conversation_id"):
        raise UserError("this run is not of that conversation, which has not seen what came before; leave the id out")
    if given["context"] is not None and given["context"] is not live.context:
        # Whatever wrapper it comes in, what the run has used goes on counting.
        live.context = live.context.around(wrapped(given["context"]).context)
    if given["session"] is not None:
        live.session = given["session"]
    journal = _journal(given["journal"])
    if journal is not None and journal is not live.journal:
        live.journal = journal
        live.kept = False
    if config.policy is None and live.policy is not None:
        config = replace(config, policy=live.policy)
    live.policy = config.policy
    if config.reasoning_item_id_policy is None and (policy := live.run.about.get("reasoning_item_id_policy")):
        config = replace(config, reasoning_item_id_policy=policy)
    start = state.undelivered.start or {}
    limit = given["max_turns"]
    chosen = None if isinstance(limit, DefaultLimit) else TurnLimit(None if limit is None else int(limit))
    return given["execution"](live, _scope(live, config, given, start), state, chosen)


def _request_for(state: RunState[Any], requester: str | None) -> None:
    """Set the requester of a run that has not started; a run that has started is resumed for its own requester only."""
    if requester is None:
        return
    start, run = state.undelivered.start, state.live.run
    if start is not None:
        start["requester"] = plain_text(requester, "requester")
    elif requester != run.requester:
        raise NotPending(f"there is no run {run.id!r} of this requester; leave requester= out to resume it for its own")


def _attach_agent(live: OpenRun, agent: Agent[Any]) -> None:
    """Attach the agent given at a resume: the root again, perhaps rebuilt, or any agent of its graph."""
    root = live.graph.root
    if agent is root or agent in live.graph:
        live.graph = live.graph.renewed(root)
        return
    if agent.name != root.name:
        raise AgentMissing(root.name)
    live.graph = AgentGraph(agent)


def _scope(live: OpenRun, config: RunConfig, given: dict[str, Any], start: dict[str, Any]) -> FrameSettings:
    about = live.run.about
    conversation = given["conversation_id"] or start.get("conversation_id") or about.get("conversation_id")
    chained = bool(
        given["previous_response_id"]
        or given["auto_previous_response_id"]
        or start.get("previous_response_id")
        or start.get("auto_previous_response_id")
        or about.get("chained")
    )
    return FrameSettings(
        config,
        live.context,
        given["hooks"],
        live.session,
        conversation,
        chained,
        error_handlers=given["error_handlers"],
        policy_of=given["policy_of"],
        inbox=live.journal is not None,
    )


def _journal(journal: Journal | str | None) -> Journal | None:
    return opened(journal) if isinstance(journal, str) else journal
