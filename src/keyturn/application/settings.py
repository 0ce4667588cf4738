"""What an app is given, and may be given anew while it works: each setting is read where it is needed, never copied.

The policy is one object for the gate, the pages and the API. Nothing here starts, finds or moves a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

from ..agents.agent import Agent, AgentDeclaration
from ..agents.context_type import checked_type, declared_type
from ..agents.hooks import RunHooks
from ..agents.settings import RunConfig, with_arguments
from ..channels.base import Channel
from ..channels.plan import ChannelPlan
from ..channels.service import ChannelService
from ..core.errors import AgentMissing, UserError
from ..core.settable import CALLBACK, ELSEWHERE, FLAG, WHOLE, Rule, fixed, must, own_of
from ..core.values import is_number, is_whole
from ..engine.run.about import STORE
from ..engine.run.open_run import wrapped
from ..engine.states.context_data import Maker, check_returns
from ..engine.states.loading import ContextOptions
from ..inbox.drills import DrillService
from ..inbox.rule_lint import checked_policy, parts_of
from ..journal.lease_sql import LONGEST_MS
from ..journal.optional import FleetLimits, LimitsClaims
from ..policies.base import PolicyLike
from ..support.user_code import run_callback
from .engines import OnEngine
from .lifespan import AppResources

_Declared = Agent[Any] | AgentDeclaration
_ONE = "an app has one journal as long as it lives: make another App"
_POLICY_LOST = (
    "this run_config has no policy, and the app has one: pass RunConfig(policy=app.policy, ...) to keep it, or set "
    "app.policy = None first to drop it"
)
_BOTH = "context_type= says how the context comes back, and so does context_deserializer=: drop one"


def _agents(app: object, name: str, given: Mapping[str, _Declared] | Iterable[_Declared]) -> Any:
    """Keep the agents by name: always in the same dict, which inbox and workers read."""
    if isinstance(given, str) or not isinstance(cast("object", given), Iterable):
        raise UserError("an app has a list of agents: App([agent], ...)")
    several = cast("Mapping[str, _Declared]", given).values() if isinstance(given, Mapping) else given
    made = [_core_of(agent) for agent in several]
    named = {agent.name: agent for agent in made}
    if len(named) != len(made):
        raise UserError("two agents of an app have the same name; names must be unique")
    if (config := own_of(app).get("run_config")) is not None:
        checked_policy(named, config.policy)
    known: dict[str, Agent[Any]] = own_of(app).setdefault(name, named)
    if known is not named:
        known.clear()
        known.update(named)
    own_of(app)["_linted"] = parts_of(known)
    return known


def _core_of(declared: _Declared) -> Agent[Any]:
    return declared if isinstance(declared, Agent) else declared.core_agent()


def _run_config(app: AppSettings, name: str, given: RunConfig | Mapping[str, Any] | None) -> RunConfig:
    config = RunConfig.of(given)
    if config.policy is None and (before := own_of(app).get(name)) is not None and before.policy is not None:
        raise UserError(_POLICY_LOST)

    def check(policy: PolicyLike | None) -> Any:
        return checked_policy(app.agents, policy)

    own_of(config)["_check_policy"] = check
    config.policy = config.policy
    return config


def _hooks(app: object, name: str, given: object) -> Any:
    if given is not None and not isinstance(given, RunHooks):
        raise UserError(f"hooks must be RunHooks, not {type(given).__name__}; AgentHooks belong to Agent(hooks=...)")
    return cast("Any", given)


def _context(app: object, name: str, given: object) -> Any:
    own = own_of(app)
    checked = checked_type(given) if name == "context_type" else CALLBACK(app, name, given)
    both: dict[str, Any] = {**{each: own.get(each) for each in _CONTEXT}, name: checked}
    if both["context_type"] is not None and (both["context_serializer"] or both["context_deserializer"]):
        raise UserError(_BOTH)
    return checked


def _channels(app: object, _name: str, given: ChannelPlan | Sequence[Channel]) -> Any:
    own_of(app)["_telling"].plan = ChannelPlan.of(given)
    return ELSEWHERE


def _lifespan(app: object, _name: str, given: object) -> Any:
    own_of(app)["_resources"].lifespan = given
    return ELSEWHERE


def _drills(app: object, _name: str, given: object) -> Any:
    own_of(app)["_drilling"].drills = given
    return ELSEWHERE


def _of_workers(rule: Rule) -> Rule:
    """Make the rule of what holds from then on, also for workers that are at work."""

    def told(app: object, name: str, given: object) -> Any:
        made = rule(app, name, given)
        if (workers := own_of(app).get("_workers")) is not None:
            workers.set(name, made)
        return made

    return told


def is_limit(value: object) -> bool:
    """Return whether this is a number of runs, or None for any number."""
    return value is None or (is_whole(value) and value >= 1)


LIMIT = must(is_limit, "a whole number, 1 or more, or None")


def fleet_limit(owner: object, name: str, given: object) -> Any:
    """Check a limit of all workers, which are counted by the journal."""
    if given is not None and not isinstance(own_of(owner)["journal"], LimitsClaims):
        raise UserError(f"this journal does not count what other workers execute, which {name} needs")
    return LIMIT(owner, name, given)


def _is_time(value: object) -> bool:
    return is_number(value) and value >= 0


def _is_lease(value: object) -> bool:
    return is_number(value) and 0 < value <= LONGEST_MS / 1_000


def _is_name(value: object) -> bool:
    return value is None or (isinstance(value, str) and bool(value))


_CONTEXT = ("context_serializer", "context_deserializer", "context_type")
APP_RULES: dict[str, Rule] = {
    "agents": _agents,
    "run_config": _run_config,
    "hooks": _hooks,
    "sessions": CALLBACK,
    "session_store": must(_is_name, "the name of where the app keeps its sessions"),
    **dict.fromkeys(_CONTEXT, _context),
    "embedded": FLAG,
    "slots": _of_workers(WHOLE),
    "grace": _of_workers(must(_is_time, "a number of seconds")),
    "lease": _of_workers(must(_is_lease, "a number of seconds above 0, 3600 at most")),
    "channels": _channels,
    "lifespan": _lifespan,
    "drills": _drills,
    "fleet_slots": fleet_limit,
    **dict.fromkeys(("journal", "people", "inbox", "asks", "audit", "insights", "trusted_keys"), fixed(_ONE)),
}


class AppSettings(OnEngine):
    """Holds the settings of an app; one that is set holds from the next thing that reads it."""

    #: The agents of the app, by name.
    agents: dict[str, Agent[Any]]
    #: The settings of every run.
    run_config: RunConfig
    #: Called while its runs go on.
    hooks: RunHooks[Any] | None
    #: Makes the session of an id.
    sessions: Callable[[str], Any] | None
    #: Names where they are kept.
    session_store: str | None
    context_serializer: Callable[[Any], Any] | None
    context_deserializer: Callable[[Any], Any] | None
    context_type: type[Any] | None
    #: The ids of the people's keys that this process trusts by itself.
    trusted_keys: Sequence[str]
    #: Whether this process moves runs.
    embedded: bool
    #: How many runs this process moves at once.
    slots: int
    #: How many seconds what was begun may take when the app is stopped.
    grace: float
    #: How many runs of the tenant all workers of the journal execute at once; None for as many as they have slots.
    fleet_slots: int | None
    #: For how many seconds a worker holds a run at a time; it renews the lease three times as often.
    lease: float
    _telling: ChannelService
    _resources: AppResources
    _drilling: DrillService
    _linted: list[object]
    _rules = APP_RULES
    _remedies: ClassVar[Mapping[str, str]] = {"worker": "embedded says whether this process executes runs"}

    @property
    def policy(self) -> PolicyLike | None:
        """Return the policy of every run: what the gate asks, and what the pages and the API show."""
        return self.run_config.policy

    @policy.setter
    def policy(self, policy: PolicyLike | None) -> None:
        self.run_config.policy = policy

    @property
    def lease_ms(self) -> int:
        """Return for how long a worker holds a run at a time, in milliseconds."""
        return int(self.lease * 1_000)

    def _limits(self) -> FleetLimits | None:
        return None if self.fleet_slots is None else FleetLimits(self.fleet_slots)

    @property
    def channels(self) -> ChannelPlan:
        """Return by which channels people are told, and which people."""
        return self._telling.plan

    @property
    def lifespan(self) -> Any:
        """Return what opens what the tools of the app need."""
        return self._resources.lifespan

    @property
    def drills(self) -> Any:
        """Return the drills that are mixed in with what waits."""
        return self._drilling.drills

    def session(self, session_id: str | None) -> Any:
        """Make the session of an id; None for None."""
        if session_id is None:
            return None
        if self.sessions is None:
            raise UserError("a session is named by its id; say App(sessions=...) what makes the session of an id")
        return run_callback(self.sessions, session_id)

    def session_of(self, about: Mapping[str, Any]) -> Any:
        """Make the session of a run, or refuse one that another app keeps."""
        kept = about.get(STORE)
        if "session" in about and kept != self.session_store:
            raise UserError(f"its session is kept in {kept!r}, and this app keeps sessions in {self.session_store!r}")
        return self.session(about.get("session"))

    def about_session(self, session_id: str | None) -> dict[str, Any]:
        """Return what a run records of its session."""
        kept = {} if self.session_store is None else {STORE: self.session_store}
        return {} if session_id is None else {"session": session_id, **kept}

    def _check_context(self, agent: Agent[Any], context: object) -> None:
        """Refuse a context with which a run of the agent could not go on after a pause."""
        made = self.context_serializer or self.context_deserializer
        kind = None if made else self.context_type or declared_type(agent)
        check_returns(wrapped(context).context, self.context_serializer, Maker(self.context_deserializer, kind))

    def _check_session(self, agent: Agent[Any], *context: object) -> None:
        """Refuse a realtime session whose run the app's workers could not move."""
        known = self.agents.get(agent.name)
        if known is None or not known.realtime:
            raise UserError(f"this app has no RealtimeAgent {agent.name!r}: make it with App([agent, ...], ...)")
        for given in context:
            self._check_context(agent, given)

    def _policy_now(self) -> PolicyLike | None:
        return self.policy

    def _agent(self, name: str) -> Agent[Any]:
        agent = self.agents.get(name)
        if agent is None:
            raise AgentMissing(name, f"this app has no agent {name!r}; it has: {', '.join(self.agents) or 'none'}")
        return agent

    def _lint_agents(self) -> None:
        """Refuse a policy that can match nothing of the agents, where their dict or tools were changed in place."""
        now = parts_of(self.agents)
        if len(now) != len(self._linted) or any(one is not other for one, other in zip(now, self._linted, strict=True)):
            checked_policy(self.agents, self.policy)
            self._linted = now

    @property
    def _contexts(self) -> ContextOptions:
        return {"context_deserializer": self.context_deserializer, "context_type": self.context_type}

    def _refusal(self, name: str, may_be: str, value: object) -> Exception:
        """Return the error for a value that an attribute cannot have."""
        return UserError(f"{name} of an App must be {may_be}, not {value!r}")

    def _described(self) -> str:
        """Return what errors call it."""
        return "an App"

    def _given(self, agents: Sequence[Agent[Any] | AgentDeclaration], options: Mapping[str, Any]) -> None:
        """Take what the constructor was given of these."""
        self.agents = cast("Any", agents)
        self.run_config = with_arguments(RunConfig.of(options["run_config"]), options)
        for name in ("hooks", "sessions", "session_store", *_CONTEXT, "trusted_keys", "slots", "grace", "lease"):
            setattr(self, name, options[name])
        self.embedded = options["worker"]
