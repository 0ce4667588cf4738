"""What a seed decides of the kinds that came with the second attack: forks, poison, other terms, drills, turns.

Each has its own dice, so that a kind that is turned off moves no other part of the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from keyturn import Breaker, Rule
from keyturn.policies.rules import allow, ask, deny

from .knobs import Knobs, Spec
from .poison import doubts

#: Gates whose terms a deployment may change while calls wait: who decides, and how many.
TERMS = ("asks", "two", "led", "two_led", "glass")
UNASKED = ("free", "asks_if")
CHAINS = ("chain", "chain_glass")
OUTSIDE_GATES = ("asks", "asks", *TERMS, "expires", "stale", "stale", "again", "escalates")
DRILLS_EVERY, DRILLS_AT_MOST = 90_000, 2
POISONS = ("needs", "when", "guardrail", "tool guardrail", "hook", "check", "model")


@dataclass(frozen=True)
class Trips:
    """A breaker on a tool that runs unasked: so many troubles within a time, and it asks or denies.

    One that is `shared` counts those of all runs.
    """

    tool: str
    most: int
    seconds: int
    denies: bool
    shared: bool = False

    def rule(self) -> Rule:
        """The rule that holds while it is open."""
        of = "tenant" if self.shared else "run"
        over = Breaker(self.most, per=self.seconds, after=["rejected", "failed"], of=of)
        return (deny if self.denies else ask)(tool=self.tool, over=over)


@dataclass(frozen=True)
class Outside:
    """A call that a program outside asks for: of which account, under which key, and by how many processes of it."""

    key: str
    account: str
    spec: Spec
    n: int
    processes: int

    @property
    def arguments(self) -> str:
        """The text of its arguments, which no printer makes so."""
        return f'{{"n": {self.n},  "note": ""}}'


@dataclass
class Kinds:
    """What one seed has of them.

    `poisoned` are the callbacks that raise what is no ordinary exception; `terms` has for a tool the gate of the next
    deployment; `late` names a tool that one process sets a gate on while it runs, `late_policy` whether by a policy of
    the app; `doubted` the tool whose rule asks a condition. Of what a rule lets run of the tool `sampled`, the
    share `sample` is reviewed. `queued` is how many runs wait for their turn on a
    session. `outside` are the calls that programs outside ask for.
    """

    forks: bool = False
    poisoned: frozenset[str] = frozenset()
    terms: dict[str, str] = field(default_factory=dict[str, str])
    drills: bool = False
    sampled: str = ""
    sample: float = 0.5
    trips: Trips | None = None
    queued: int = 0
    late: str = ""
    late_policy: bool = False
    doubted: str = ""
    outside: tuple[Outside, ...] = ()
    chains: dict[str, str] = field(default_factory=dict[str, str])

    def deployed(self, spec: Spec, version: int) -> Spec:
        """A tool on the terms of a deployment."""
        gate = self.chains.get(spec.name, spec.gate)
        return replace(spec, gate=self.terms.get(spec.name, gate) if version > 1 else gate)

    def rules(self) -> list[Rule]:
        """The rules that these kinds put before all others."""
        made = [] if self.trips is None else [self.trips.rule()]
        made += [ask(tool=self.doubted, when=doubts)] if self.doubted else []
        return [
            *made,
            *([allow(tool=self.sampled, where={"n": {"lt": 30}}, review=self.sample)] if self.sampled else []),
        ]


def kinds_of(seed: int, specs: Sequence[Spec], knobs: Knobs) -> Kinds:
    """The kinds of a seed."""
    made = Kinds()
    free = [spec.name for spec in specs if spec.gate in UNASKED]
    made.forks = knobs.forks and Random(f"{seed}/forks").random() < 0.4
    if knobs.poison and (dice := Random(f"{seed}/poisoned")).random() < 0.25:
        made.poisoned = frozenset(dice.sample(POISONS, 3))
        made.doubted = dice.choice(free) if free and "when" in made.poisoned else ""
    if knobs.changes and (dice := Random(f"{seed}/terms")).random() < 0.4:
        asking = [spec for spec in specs if spec.gate in TERMS]
        made.terms = {spec.name: dice.choice([gate for gate in TERMS if gate != spec.gate]) for spec in asking}
    if knobs.reviews and (dice := Random(f"{seed}/reviews")).random() < 0.3:
        made.drills, made.sampled = dice.random() < 0.5, dice.choice([spec.name for spec in specs])
        made.sample = dice.choice((0.5, 1.0))
    if knobs.limits and free and (dice := Random(f"{seed}/trips")).random() < 0.4:
        made.trips = Trips(dice.choice(free), dice.choice((1, 1, 2)), 600, dice.random() < 0.5, dice.random() < 0.5)
    if knobs.queues and (dice := Random(f"{seed}/queued")).random() < 0.2:
        made.queued = dice.randint(2, 4)
    if knobs.late and free and (dice := Random(f"{seed}/late")).random() < 0.25:
        made.late, made.late_policy = dice.choice(free), dice.random() < 0.5
    if knobs.callers and (dice := Random(f"{seed}/callers")).random() < 0.35:
        names = [dice.choice(["ship", *(spec.name for spec in specs)])] * 3 + ["ship"]
        made.outside = tuple(_outside(dice, number, names) for number in range(dice.randint(1, 4)))
    if knobs.chains and (dice := Random(f"{seed}/chains")).random() < 0.3:
        made.chains = {spec.name: dice.choice(CHAINS) for spec in specs if spec.gate in TERMS}
        made.outside = tuple(replace(each, spec=replace(each.spec, gate=dice.choice(CHAINS))) for each in made.outside)
    return made


def _outside(dice: Random, number: int, names: list[str]) -> Outside:
    account, gate = dice.choice(("ci", "ci", "shop")), dice.choice(OUTSIDE_GATES)
    return Outside(
        f"job {number}", account, Spec(dice.choice(names), gate), dice.randrange(100), dice.choice((1, 1, 2))
    )
