"""Begin realtime sessions, or take them up again, with what they share: an agent, a model, settings, a journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from ..agents.settings import RunConfig
from ..core.errors import Conflict, UserError
from ..core.people import plain_text
from ..engine.attended import AttendedExecution, Hosting
from ..engine.run.agents import AgentGraph
from ..engine.run.open_run import claimant
from ..engine.runner import play_of
from ..engine.states.loading import ContextOptions, found
from ..engine.states.state import RunState
from ..journal import opened
from ..journal.base import Journal
from ..policies.base import PolicyLike
from .agent import RealtimeAgent
from .config import RealtimeRunConfig
from .model import RealtimeModel, RealtimeModelConfig
from .session import RealtimeSession

if TYPE_CHECKING:
    from ..app import App

_LOOK_AGAIN = 0.2
_KNOWN = frozenset(RealtimeRunConfig.__annotations__)


@dataclass
class Beginning:
    """Holds what a session begins with, and makes the execution of its run."""

    agent: RealtimeAgent[Any]
    config: RealtimeRunConfig
    options: dict[str, Any]
    context: Any = None
    resumed: str | RunState[Any] | None = None
    requester: str | None = None
    hosting: Hosting = field(default_factory=lambda: Hosting(RunConfig()))

    async def execution(self) -> AttendedExecution:
        """Make the execution; a run of a journal is claimed here, once nobody else holds it."""
        if isinstance(self.resumed, str):
            play = await self._taken_up(self.resumed)
        else:
            given: Any = [] if self.resumed is None else self.resumed
            context = {} if self.context is None else {"context": self.context}
            play = self._play(given, **context)
        start = play.state.undelivered.start
        if start is not None and self.requester is not None:
            start["requester"] = plain_text(self.requester, "requester")
        if self.hosting.attach is not None:
            await self.hosting.attach(play)
        return play

    def _play(self, given: Any, **more: Any) -> AttendedExecution:
        return cast(
            "AttendedExecution",
            play_of(self.agent, given, execution=AttendedExecution, max_turns=None, **self.options, **more),
        )

    async def _taken_up(self, run_id: str) -> AttendedExecution:
        journal: Journal | None = self.options["journal"]
        if journal is None:
            raise UserError("a run is found again by its id in a journal: make the runner with journal=")
        ttl = AttendedExecution.lease_ms
        claim = await _claimed(journal, run_id, ttl)
        try:
            options: ContextOptions = {**(self.hosting.makes or {}), "context": self.context}
            live = await found(journal, run_id, self._root, options, held=True)
            if live.run.status == "finished":
                raise UserError(f"the conversation of run {run_id!r} is over; begin another one")
            if live.run.frames and all(frame.barrier for frame in live.run.frames.values()):
                raise UserError(f"run {run_id!r} is no realtime session; resume it with Runner.run")
            play = self._play(await RunState.of(live))
        except BaseException:
            await journal.release(claim)
            raise
        play.claim = claim
        return play

    def _root(self, name: str) -> Any:
        agent = AgentGraph(self.agent).agent_at.get(name)
        if agent is None or agent is not self.agent:
            raise UserError(f"that run is of agent {name!r} and not of {self.agent.name!r}")
        return agent


async def _claimed(journal: Journal, run_id: str, ttl: int) -> Any:
    """Claim a run, waiting for as long as a holder that has died would hold it; one that lives renews its claim."""
    until = asyncio.get_running_loop().time() + ttl / 1_000 + 1
    while True:
        try:
            return await journal.claim(run_id, claimant("session"), ttl)
        except Conflict:
            if asyncio.get_running_loop().time() > until:
                raise
        await asyncio.sleep(_LOOK_AGAIN)


def checked_agent(agent: Any) -> RealtimeAgent[Any]:
    """Return an agent that is talked to, and refuse any other."""
    if not isinstance(agent, RealtimeAgent):
        raise UserError(f"RealtimeRunner runs a RealtimeAgent, not a {type(agent).__name__}")
    return cast("RealtimeAgent[Any]", agent)


class RealtimeRunner:
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
        app: App | None = None,
    ) -> None:
        self.agent = checked_agent(starting_agent)
        self._model = model
        self._config: RealtimeRunConfig = {} if config is None else config
        unknown = sorted(self._config.keys() - _KNOWN)
        if unknown:
            raise UserError(f"config has no {unknown[0]!r}; it has {', '.join(sorted(_KNOWN))}")
        if app is not None and (journal is not None or policy is not None):
            raise UserError("an app has its own journal and policy: leave out journal= and policy=")
        self._journal = opened(journal) if isinstance(journal, str) else journal
        self._policy = policy
        self._requester = requester
        self._hosting = Hosting(RunConfig())
        if app is not None:
            self._journal = app.journal
            self._hosting = app.hosting

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
        base = self._hosting.config
        settings: dict[str, Any] = {
            "tracing_disabled": config.get("tracing_disabled", base.tracing_disabled),
            "tool_not_found_behavior": "return_error_to_model",
        }
        if "tool_error_formatter" in config:
            settings["tool_error_formatter"] = config["tool_error_formatter"]
        if "tool_execution" in config:
            settings["tool_execution"] = dict(config["tool_execution"])
        options = {"journal": self._journal, "run_config": replace(base, **settings), "policy": self._policy}
        beginning = Beginning(self.agent, config, options, context, resume, self._requester, self._hosting)
        model = self._model
        if model is None:
            from .openai_websocket import OpenAIRealtimeWebSocketModel

            model = OpenAIRealtimeWebSocketModel()
        made = model if isinstance(model, RealtimeModel) else model()
        return RealtimeSession(beginning, made, model_config or {})
