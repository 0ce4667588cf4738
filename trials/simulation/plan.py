"""What a seed decides before anything happens: who there is, which tools, how bad the weather is.

`Knobs` bound it. Shrinking a failure is trying the same seed with smaller knobs; the dice of each part are its own, so
that what is turned off moves nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from keyturn import Budget, Rule
from keyturn.policies.rules import Policy, allow, ask, deny

from .kinds import Kinds, kinds_of
from .knobs import Knobs, Spec

TOOLS = ("pay", "mail", "look", "book", "wipe")
GATES = ("free", "asks", "asks", "asks_if", "expires", "stale", "two", "again", "escalates", "led", "glass", "two_led")
RECOVERIES = ("ask", "ask", "ask", "retry", "probe", "read")


@dataclass
class AgentPlan:
    """One agent and those below it. `guardrail` is "", "before" or "beside"."""

    name: str
    tools: list[Spec] = field(default_factory=list[Spec])
    nested: list[AgentPlan] = field(default_factory=list["AgentPlan"])
    asks_first: bool = False
    colleague: AgentPlan | None = None
    guardrail: str = ""
    checked: bool = False
    stops_at: str = ""

    def within(self) -> list[Spec]:
        """All tools, its own and of those below it."""
        below = [*self.nested, *([] if self.colleague is None else [self.colleague])]
        return [*self.tools, *(spec for each in below for spec in each.within())]


@dataclass(frozen=True)
class Purse:
    """What all runs together may do with one tool unasked: the sum of its numbers."""

    tool: str
    most: int

    def rule(self) -> Rule:
        """The rule that asks for what is over it."""
        return ask(tool=self.tool, over=Budget("n", self.most, of="tenant", name="purse"))


@dataclass
class Plan:
    """One seed's world. `changing` are the tools that a new deployment describes otherwise."""

    seed: int
    knobs: Knobs
    root: AgentPlan
    specs: list[Spec]
    runs: int
    processes: int
    policy: Policy | None
    purse: Purse | None
    changing: set[str]
    fault_rate: float
    death_rate: float
    stall_rate: float
    chaos: float
    restores: bool = False
    talks: int = 0
    kinds: Kinds = field(default_factory=Kinds)

    def dice(self, part: str) -> Random:
        """The dice of one part of the world."""
        return Random(f"{self.seed}/{part}")


def draw(seed: int, knobs: Knobs) -> Plan:
    """The world of a seed."""
    dice = Random(seed)
    specs = [_spec(dice, name, knobs) for name in dice.sample(TOOLS, dice.randint(2, 4))]
    root = _agent(dice, "desk", specs, knobs.depth, knobs)
    specs = [spec for spec in specs if spec in root.within()]  # a rule about a tool that nobody has is refused
    runs, processes = dice.choice((1, 1, 2)), dice.choice((1, 2, 2, 3))
    rough = dice.choice((0.0, 1.0, 1.0, 3.0))
    policy = _policy(dice, specs) if knobs.policies else None
    purse = _purse(Random(f"{seed}/purse"), specs) if knobs.limits else None
    if purse is not None:
        policy = Policy(purse.rule(), *(() if policy is None else policy.rules))
    kinds, restores = kinds_of(seed, specs, knobs), knobs.restores and Random(f"{seed}/restored").random() < 0.2
    if restores:  # a session is kept elsewhere, and does not come back with the store
        kinds.queued = 0
    if purse is not None and purse.tool == kinds.sampled:  # what a rule before it allows counts for no limit
        kinds.sampled = ""
    if rules := kinds.rules():
        policy = Policy(*rules, *(() if policy is None else policy.rules))
    changing = set(dice.sample([spec.name for spec in specs], dice.choice((0, 0, 1))))
    dies, stalls, chaos = dice.random() < 0.6, dice.random() < 0.4, dice.choice((120.0, 400.0, 1_500.0))
    return Plan(
        seed,
        knobs,
        root,
        specs,
        min(runs, knobs.runs),
        min(processes, knobs.processes),
        policy,
        purse,
        changing if knobs.changes else set(),
        0.01 * rough if knobs.faults else 0.0,
        0.7 if dies and knobs.deaths else 0.0,
        0.02 if stalls and knobs.stalls else 0.0,
        chaos,
        restores,
        Random(f"{seed}/talked").choice((0, 0, 0, 1, 1, 2)) if knobs.talks else 0,
        kinds,
    )


def _spec(dice: Random, name: str, knobs: Knobs) -> Spec:
    gate, recover = dice.choice(GATES), dice.choice(RECOVERIES)
    timeout = dice.choice((None, None, 20.0))
    questions, guarded = dice.random() < 0.2, dice.random() < 0.2
    return Spec(name, gate, recover, timeout, questions, guarded and knobs.guardrails)


def _agent(dice: Random, name: str, specs: list[Spec], depth: int, knobs: Knobs) -> AgentPlan:
    made = AgentPlan(name, dice.sample(specs, dice.randint(1, len(specs))))
    nested, colleague = dice.random() < 0.45, dice.random() < 0.35
    made.asks_first = dice.random() < 0.3
    guardrail, checked, stops = dice.choice(("", "", "", "before", "beside")), dice.random() < 0.1, dice.random() < 0.2
    if knobs.guardrails:
        made.guardrail, made.checked = guardrail, checked
    made.stops_at = made.tools[0].name if stops else ""
    if depth and nested:
        made.nested = [_agent(dice, f"{name}'s clerk", specs, depth - 1, knobs)]
    if depth and colleague:
        made.colleague = _agent(dice, f"{name}'s colleague", specs, 0, knobs)
    return made


def _purse(dice: Random, specs: list[Spec]) -> Purse | None:
    """A limit on a tool that runs unasked, if there is one."""
    free = [spec.name for spec in specs if spec.gate in ("free", "asks_if")]
    return Purse(dice.choice(free), dice.choice((0, 60, 150, 300))) if free and dice.random() < 0.6 else None


def _policy(dice: Random, specs: list[Spec]) -> Policy | None:
    if dice.random() < 0.6:
        return None
    names = [spec.name for spec in specs]
    rules = [
        deny(tool=dice.choice(names), where={"n": {"ge": 90}}, reason="too much"),
        ask(tool=dice.choice(names), where={"n": {"ge": 70}}),
        allow(tool=dice.choice(names), where={"n": {"lt": 10}}),
    ]
    return Policy(*dice.sample(rules, dice.randint(1, 3)))
