"""Begin realtime sessions, or take them up again, with what they share: an agent, a model, settings, a journal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Protocol, cast

from ..agents.settings import RunConfig
from ..core.errors import UserError
from ..core.settable import Sealed
from ..engine.attended import Hosting
from ..engine.states.state import RunState
from ..journal import opened
from ..journal.base import Journal
from ..policies.base import PolicyLike
from .agent import RealtimeAgent
from .beginning import Beginning
from .config import RealtimeRunConfig, check_config
from .model import RealtimeModel, RealtimeModelConfig
from .session import RealtimeSession

# Settings of runs that would change nothing of what is said in a session.
_KEPT = "where the provider keeps the conversation: use RealtimeRunner(journal=...), or an app without it"
_UNHEARD = {
    "input_guardrails": "where what is said reaches the model at once: use output_guardrails, or an app without it",
    **dict.fromkeys(("call_model_input_filter", "handoff_input_filter", "nest_handoff_history"), _KEPT),
    "handoff_history_mapper": _KEPT,
}


def _execution(config: RunConfig) -> dict[str, Any]:
    given = config.tool_execution
    return {} if given is None else {each.name: getattr(given, each.name) for each in fields(given)}


class Host(Protocol):
    """Hosts runs in a journal of its own, as an `App` does."""

    @property
    def journal(self) -> Journal:
        """Return the journal of its runs."""
        ...

    @property
    def hosting(self) -> Hosting:
        """Return what its runs are given."""
        ...


def checked_agent(agent: object) -> RealtimeAgent[Any]:
    """Return an agent that is talked to, and refuse any other."""
    if not isinstance(agent, RealtimeAgent):
        raise UserError(f"RealtimeRunner runs a RealtimeAgent, not a {type(agent).__name__}")
    return cast("RealtimeAgent[Any]", agent)


class RealtimeRunner(Sealed):
    """Runs realtime sessions of an agent.

    `model` makes the connection, OpenAI's where none is given; one that can hold only one connection is made anew for
    each session by passing its class. With `journal=` the conversation and what waits in it outlive the process; with
    `app=` the sessions are runs of that app, in its journal, under its policy, decided by its people.

    >>> from keyturn.realtime import RealtimeAgent
    >>> RealtimeRunner(RealtimeAgent("Support")).agent.name
    'Support'
    """

    def __init__(
        self,
        starting_agent: RealtimeAgent[Any],
        *,
        model: RealtimeModel | Callable[[], RealtimeModel] | None = None,
        config: RealtimeRunConfig | None = None,
        journal: Journal | str | None = None,
        policy: PolicyLike | None = None,
        requester: str | None = None,
        app: Host | None = None,
    ) -> None:
        self.agent = checked_agent(starting_agent)
        self._model = model
        self._config: RealtimeRunConfig = {} if config is None else config
        check_config(self._config)
        if app is not None and (journal is not None or policy is not None):
            raise UserError("an app has its own journal and policy: leave out journal= and policy=")
        self._journal = opened(journal) if isinstance(journal, str) else journal
        self._policy = policy
        self._requester = requester
        self._app = app
        if app is not None:
            self._journal = app.journal

    async def run(
        self,
        *,
        context: Any = None,
        model_config: RealtimeModelConfig | None = None,
        resume: str | RunState[Any] | None = None,
    ) -> RealtimeSession:
        """Make a session; it is connected when it is entered: `async with session`.

        `resume` is the id of a run in the journal, or a state that a session without a journal gave: the model is told
        the conversation so far, and what waited is there again.
        """
        config = self._config
        hosting = Hosting(RunConfig()) if self._app is None else self._app.hosting
        base = hosting.config
        if hosting.check is not None:
            hosting.check(self.agent, *([context] if resume is None or context is not None else []))
        for name, why in _UNHEARD.items():
            if getattr(base, name):
                raise UserError(f"RunConfig({name}=...) of this app has no effect in a realtime session, {why}")
        settings: dict[str, Any] = {
            "tracing_disabled": config.get("tracing_disabled", base.tracing_disabled),
            "tool_not_found_behavior": "return_error_to_model",
        }
        if "tool_error_formatter" in config:
            settings["tool_error_formatter"] = config["tool_error_formatter"]
        if "tool_execution" in config:
            settings["tool_execution"] = {**_execution(base), **config["tool_execution"]}
        if "usage_limits" in config:
            settings["usage_limits"] = config["usage_limits"]
        options = {
            "journal": self._journal,
            "run_config": replace(base, **settings),
            "policy": self._policy,
            "policy_of": hosting.policy_of,
            "hooks": hosting.hooks,
        }
        beginning = Beginning(self.agent, config, options, context, resume, self._requester, hosting)
        model = self._model
        if model is None:
            from .openai_websocket import OpenAIRealtimeWebSocketModel

            model = OpenAIRealtimeWebSocketModel()
        made = model if isinstance(model, RealtimeModel) else model()
        return RealtimeSession(beginning, made, model_config or {})
