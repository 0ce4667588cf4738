"""The world outside of the processes: what tools did to it, what people said, what went wrong, and the tale of it all.

It outlives every process. Its dice are per part, so that turning one part off does not move the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

from keyturn import AskState
from keyturn.core.strict import parse
from keyturn.journal.memory import MemoryJournal
from keyturn.tools.base import NeedsInput, OutcomeUnknown

from .kinds import Outside
from .knobs import Spec
from .loop import PROCESS, VirtualLoop
from .made import Made, journal_time
from .plan import Plan
from .poison import poison
from .seen import Word
from .witness import Witness

WAYS = ("does", "raises", "late", "raises late", "hangs", "unknown", "dies before", "dies after", "exits")
WEIGHTS = (70, 4, 6, 4, 4, 3, 4, 4, 1)


class World:
    """Everything that is true whatever processes think."""

    def __init__(self, plan: Plan, *, told: bool = False) -> None:
        self.plan, self.told = plan, told
        self.store = MemoryJournal(journal_time)
        self.fault_dice, self.tool_dice = plan.dice("faults"), plan.dice("tools")
        self.model_dice, self.people_dice = plan.dice("models"), plan.dice("people")
        self.fate, self.meddling_dice = plan.dice("fate"), plan.dice("meddling")
        self.telling_dice, self.talk_dice = plan.dice("telling"), plan.dice("talks")
        self.poison_dice, self.queue_dice = plan.dice("poison"), plan.dice("queue")
        self.patience_dice, self.call_dice = plan.dice("patience"), plan.dice("calls outside")
        self.loop = VirtualLoop(plan.dice("order"))
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.tale: list[str] = []
        self.witness = Witness(plan, self.wrong)
        self.session: list[Any] = []
        self.forks = 0
        # The runs of what programs outside ask, by what they ask.
        self.asked: dict[Outside, str] = {}
        self.effects: dict[str, list[str]] = {}
        self.acknowledged: list[tuple[str, str, Word]] = []
        self.kept: Counter[tuple[str, str]] = Counter()
        # Notices that became durable, and what somebody was told: the topic, the run, the request.
        self.noticed: set[tuple[str, str, str]] = set()
        self.told_of: set[tuple[str, str, str]] = set()
        # Effects that no log tells of any more, since an older copy of the store was put back.
        self.unwritten: Counter[str] = Counter()
        self.fault_rate, self.slow_rate, self.stall_rate = plan.fault_rate, plan.fault_rate * 2, plan.stall_rate
        self.version, self.labels, self.calm, self.closed = 1, 0, False, False

    def calm_down(self) -> None:
        """From now on nothing goes wrong any more, and what is new is everywhere."""
        self.fault_rate = self.slow_rate = self.stall_rate = 0.0
        self.version, self.calm = 2, True

    def meddle(self, handed: Any) -> None:
        """Edit what user code was handed: nothing of that may ever reach a call."""
        if not self.plan.knobs.meddling or not isinstance(handed, dict) or self.meddling_dice.random() > 0.3:
            return
        if "n" in handed:
            handed["n"] = 77
        elif "arguments" in handed:
            handed["arguments"] = '{"n": 77}'
        self.count("meddled")

    def talked(self, run: str) -> bool:
        """Whether a run is one that is talked to."""
        seen = self.witness.runs.get(run)
        return seen is not None and seen.agents.get("r", "").startswith("voice")

    def is_outside(self, run: str) -> bool:
        """Whether a run is what a program outside asks."""
        seen = self.witness.runs.get(run)
        return seen is not None and bool(seen.account)

    # The tale ------------------------------------------------------------------------------------------------------

    def count(self, what: str) -> None:
        """Count one for the table."""
        self.counts[what] += 1

    def note(self, text: str) -> None:
        """Tell what happened, where somebody wants to read it."""
        if self.told:
            process = PROCESS.get(None)
            self.tale.append(f"{Made.loop.now:10.3f}  {process.name if process else '':14} {text}")

    def wrong(self, what: str) -> None:
        """A promise was not kept. What the dead say while they are buried is not heard."""
        if self.closed:
            return
        self.violations.append(what)
        self.note(f"VIOLATION: {what}")

    def durable(self, run: str, lines: list[bytes], claim: Any) -> None:
        """Lines that are durable now."""
        if self.told:
            for line in lines:
                self.note(f"log {run[:4]} {'+' if claim is None else claim.epoch}: {line.decode()[:600]}")
        self.witness.read(run, lines)

    async def pause(self, dice: Random) -> None:
        """Wait as one waits for something far away: mostly shortly."""
        await asyncio.sleep(dice.choice((0.0, 0.01, 0.3, 2.0, 20.0)))

    # Tools ---------------------------------------------------------------------------------------------------------

    async def used(self, context: Any, spec: Spec, params: dict[str, Any]) -> Any:
        """A tool is used."""
        seen = self.witness.entered(context.run_id, context.idempotency_key, spec, params)
        if spec.questions:
            if context.resumed is None:
                return NeedsInput({"question": f"{spec.name} {params['n']}?"}, state=params["n"])
            if context.resumed.refused:
                return "then not"
        way = "does" if self.calm else self.tool_dice.choices(WAYS, WEIGHTS)[0]
        trips = self.plan.kinds.trips
        if trips is not None and trips.tool == spec.name and not self.calm and self.queue_dice.random() < 0.4:
            way = "raises"  # a breaker is there for what fails often
        self.note(f"{spec.name}({params['n']}) {way}")
        if way == "raises":
            raise ValueError(way)
        await self._before(way)
        if seen is not None and spec.recover != "read":
            self.effects.setdefault(context.idempotency_key, []).append(f"{spec.name} {params['n']}")
            self.witness.acted(seen, spec)
            self.count("effects")
            self.note(f"{spec.name}({params['n']}) HAS HAPPENED for {seen.id}")
        await self._after(way)
        return f"{spec.name} {params['n']}"

    def acts_outside(self, outside: Outside, state: AskState, holder: str, *, restored: bool) -> None:
        """A caller outside does what it claimed, perhaps long ago and in a store that is no more."""
        params = parse(state.arguments)
        if restored:
            self.unwritten[state.request] += 1
        elif (seen := self.witness.entered(state.id, state.request, outside.spec, params, by=holder)) is not None:
            self.witness.acted(seen, outside.spec)
        self.effects.setdefault(state.request, []).append(f"{outside.spec.name} {params['n']}")
        self.count("effects outside")
        self.note(f"{outside.spec.name}({params['n']}) HAS HAPPENED at {holder}")

    async def _before(self, way: str) -> None:
        if self.plan.death_rate and way == "dies before":
            await self.die()
        if way in ("late", "raises late", "hangs"):
            await asyncio.sleep(self.tool_dice.choice((0.1, 3.0, 70.0)) if way == "late" else 5.0)
        if way == "hangs":
            await asyncio.sleep(300.0)

    async def _after(self, way: str) -> None:
        if self.plan.death_rate and way == "dies after":
            await self.die()
        if way == "raises late":
            raise ValueError(way)
        if way == "unknown":
            raise OutcomeUnknown("nobody can tell how it ended")
        if way == "exits":
            raise SystemExit(3)
        if way == "late":
            await asyncio.sleep(1.0)

    def probed(self, context: Any) -> Any:
        """A tool is asked whether an interrupted call happened."""
        poison("check")
        roll = self.tool_dice.random()
        if roll < 0.1 and not self.calm:
            raise OSError("the probe cannot be reached")
        if roll < 0.2 and not self.calm:
            return None
        happened = self.effects.get(context.idempotency_key)
        return happened[0] if happened else False

    async def die(self) -> None:
        """The process of whoever awaits this ends here."""
        self.count("deaths inside a tool")
        self.note("dies here")
        self.loop.kill(PROCESS.get())
        await self.loop.create_future()
