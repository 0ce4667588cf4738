"""Programs outside: they ask, wait, claim what was approved, do it themselves and report, and they die in between.

A caller is a process of its own that reaches the deployment through some process of it that is alive. One that takes
the place of another knows the key of its request and the name of its claim, and not whether its call was carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from keyturn import Ask, AskState, Conflict, KeyturnError, RunMissing
from keyturn.asks.service import AskService
from keyturn.asks.standing import asked_by
from keyturn.engine.run.log_cache import log_in

from .cast import TERMS
from .kinds import Outside
from .loop import Process
from .site import Site
from .world import World

LASTS = ("15s", "60s", "100s")
OUTCOMES, HOW_OFTEN = ("succeeded", "failed", "unknown"), (75, 12, 13)
WAYS, OF_WAYS = ("does", "slow", "forgets", "dies before", "dies after"), (40, 28, 12, 10, 10)
_STRANGER = "stranger"
Asked = Callable[[AskService], Awaitable[AskState]]


class Caller:
    """One process of an account that wants one call carried out; others of the account may want the same one."""

    def __init__(self, world: World, outside: Outside, name: str, run: str = "") -> None:
        self.world, self.outside, self.name, self.run = world, outside, name, run
        self.dice = world.call_dice
        self.holder = f"{outside.account} {name}"
        self._claimed, self._ran = set[str](), set[str]()

    @property
    def ask(self) -> Ask:
        """What it asks."""
        made = self.outside
        return Ask(key=made.key, tool=made.spec.name, arguments=made.arguments, terms=TERMS.get(made.spec.gate))

    async def live(self, sites: list[Site]) -> None:
        """Go on until its request has ended, as far as it knows."""
        await asyncio.sleep(self.dice.choice((0.0, 20.0, 200.0)))
        while True:
            await asyncio.sleep(self.dice.choice((0.0, 1.0, 5.0, 20.0)))
            if sites and await self.act(self.dice.choice(sites)):
                return

    async def act(self, site: Site) -> bool:
        """Look how its request stands and do one thing about it; whether it has ended."""
        state, roll = await self._look(site), self.dice.random()
        if state is None or state.ended:
            return state is not None
        if roll < 0.15 and not self.world.calm:
            await self._try_what_is_refused(site, state)
        elif state.status == "claimed" and state.claimed_by == self.holder:
            await self._go_on(site, state)
        elif state.status == "approved":
            await self._claim(site, state)
        elif roll < 0.2 and state.status == "pending" and not self.world.calm:
            await self._claim(site, state)  # which may be approved by now
        if roll > 0.985 and not self.world.calm:
            await self._withdraw(site, state)
        return False

    async def _look(self, site: Site) -> AskState | None:
        account = self.outside.account
        if self.run and (self.world.calm or self.dice.random() < 0.7):
            seconds = self.dice.choice((0.0, 5.0, 25.0))
            return await self._said(site, "wait", lambda asks: asks.wait(self.run, seconds, account=account))
        state = await self._said(site, "ask", lambda asks: asks.ask(self.ask, account=account))
        if state is not None:
            self.run = state.id
            self.world.kept["start", self.run] = 1
            if self.world.asked.setdefault(self.outside, self.run) != self.run:
                self.world.wrong(f"the key {self.outside.key} of {account} names two requests")
        return state

    # What it does ----------------------------------------------------------------------------------------------------

    async def _claim(self, site: Site, state: AskState) -> None:
        self._claimed.add(state.digest)
        lasts, account = self.dice.choice(LASTS), self.outside.account
        restores = self.world.counts["restores"]
        got = await self._said(
            site, "claim", lambda asks: asks.claim(state.id, state.digest, self.name, lasts=lasts, account=account)
        )
        if got is None:
            return
        self.world.count(f"callers: claims{' in the calm' * self.world.calm}")
        if (got.status, got.claimed_by, got.digest) != ("claimed", self.holder, state.digest):
            self.world.wrong(f"{self.holder} was given a claim of {got}")
        if not got.edited and got.arguments != self.outside.arguments:
            self.world.wrong(f"{self.holder} was given {got.arguments!r}")
        if got.digest not in self._ran:
            self._ran.add(got.digest)
            await self._carry_out(site, got, restores)

    async def _go_on(self, site: Site, state: AskState) -> None:
        """Go on with a claim of its own: the answer to it was lost, or a process before this one made it."""
        if state.digest in self._claimed - self._ran:
            self.world.count("callers: claims repeated")
            await self._claim(site, state)
        else:
            await self._report(site, state, "unknown")

    async def _carry_out(self, site: Site, state: AskState, restores: int) -> None:
        world, dice = self.world, self.dice
        way = "does" if world.calm else dice.choices(WAYS, OF_WAYS)[0]
        if way == "dies before" and world.plan.death_rate:
            await world.die()
        if way == "slow":
            await asyncio.sleep(dice.choice((0.5, 12.0, 120.0)))
        world.acts_outside(self.outside, state, self.holder, restored=world.counts["restores"] > restores)
        if way == "slow":
            await self._hold(site, state)
        if way == "dies after" and world.plan.death_rate:
            await world.die()
        if way != "forgets":
            await self._report(site, state, "succeeded" if world.calm else dice.choices(OUTCOMES, HOW_OFTEN)[0])

    async def _hold(self, site: Site, state: AskState) -> None:
        lasts, account = self.dice.choice(LASTS), self.outside.account
        await self._said(site, "hold", lambda asks: asks.hold(state.id, self.name, lasts=lasts, account=account))
        self.world.count("callers: claims prolonged")
        await asyncio.sleep(self.dice.choice((0.0, 20.0)))

    async def _report(self, site: Site, state: AskState, outcome: Any) -> None:
        result = self.dice.choice((None, {"n": 1}, "done"))
        self.world.witness.reports.add((state.id, self.holder, outcome))

        async def report(asks: AskService) -> AskState:
            return await asks.report(state.id, self.name, outcome, result, account=self.outside.account)

        for _ in range(self.dice.choice((1, 1, 2))):
            if await self._said(site, f"report {outcome}", report) is not None:
                self.world.kept[f"report {outcome}", state.id] = 1
                self.world.count(f"callers: reported {outcome}")

    async def _withdraw(self, site: Site, state: AskState) -> None:
        account = self.outside.account
        got = await self._said(site, "withdraw", lambda asks: asks.withdraw(state.id, account=account))
        if got is not None:
            if got.status != "withdrawn":
                self.world.wrong(f"what {self.holder} withdrew is {got.status}")
            self.world.kept["cancel", state.id] = 1
            self.world.count("callers: withdrawn")

    # What is refused -------------------------------------------------------------------------------------------------

    async def _try_what_is_refused(self, site: Site, state: AskState) -> None:
        """Try one thing that must be refused whatever happened meanwhile."""
        account = self.outside.account
        other = Ask(key=self.outside.key, tool=self.outside.spec.name, arguments='{"n": 98}')
        tries: list[tuple[type[KeyturnError], Asked]] = [
            (RunMissing, lambda asks: asks.get(state.id, account=_STRANGER)),
            (RunMissing, lambda asks: asks.claim(state.id, state.digest, self.name, account=_STRANGER)),
            (RunMissing, lambda asks: asks.report(state.id, self.name, "succeeded", account=_STRANGER)),
            (RunMissing, lambda asks: asks.withdraw(state.id, account=_STRANGER)),
            (Conflict, lambda asks: asks.claim(state.id, "f" * 64, "mistaken", account=account)),
            (Conflict, lambda asks: asks.report(state.id, "liar", "succeeded", account=account)),
            (Conflict, lambda asks: asks.hold(state.id, "liar", account=account)),
        ]
        if not self.world.plan.restores:  # where it was put back the key may name nothing
            tries.append((Conflict, lambda asks: asks.ask(other, account=account)))
        refusal, do = self.dice.choice(tries)
        if await self._said(site, f"what is refused with {refusal.__name__}", do) is not None:
            self.world.wrong(f"{self.holder} was not refused with {refusal.__name__}: {state}")
        self.world.count("callers: refused")

    async def _said(self, site: Site, what: str, do: Asked) -> AskState | None:
        """Have a process of the deployment do it, and wait for its answer as long as callers wait."""
        loop = self.world.loop
        answered = loop.create_future()

        async def served() -> None:
            got = list[AskState]()

            async def kept() -> None:
                got.append(await do(site.app.asks))

            await site.tried(f"{self.holder}: {what}", kept)
            if not answered.done():
                answered.set_result(got)

        if not site.process.alive:
            return None
        loop.begin(site.process, served())
        try:
            return next(iter(await asyncio.wait_for(answered, 60.0)), None)
        except TimeoutError:
            self.world.count("callers: got no answer")
            return None


async def carry_out_last(world: World, site: Site, run: str) -> None:
    """In the calm a process of the account claims what is approved, and does it."""
    asked = asked_by(await log_in(world.store, run))
    outside = next(each for each in world.plan.kinds.outside if each.key == asked.ask.key)
    await Caller(world, outside, "the last", run).act(site)


def caller_process(world: World, outside: Outside, number: int) -> Process:
    """The process of a caller, which may die after a while."""
    left = world.call_dice.choice((None, None, 40, 200)) if world.plan.death_rate else None
    process = Process(f"{outside.account} {outside.key}.{number}", left)
    process.here["world"] = world
    return process
