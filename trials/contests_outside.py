"""The contests of external callers: processes that claim one approved request at once, some of which withdraw it."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from keyturn import App, ExternalAgent
from keyturn.audit.checker import check
from keyturn.core.errors import Conflict

from .contests import Met
from .contests_apart import at_the_gate, told
from .forks import Child
from .lifecycle import PERSON
from .lives import Life, Place
from .outside import ask, carry_out
from .world import World

MOST = 5
SECONDS = 20.0


def claimers(place: Place, dice: random.Random) -> Met:
    """Several processes claim one approved request, or withdraw it: one claim, or none; what it is for happens once."""
    run, digest = told(Child(lambda: asyncio.run(_approved(place))), "asking")
    withdrawn, seed = dice.choice((0.0, 0.0, 0.3)), dice.random()

    def contend(ready: int, gate: int) -> Any:
        withdraws = random.Random(f"{seed}/{os.getpid()}").random() < withdrawn
        return _contend(place, (run, digest), (ready, gate), withdraws=withdraws)

    ended = at_the_gate(dice.randint(2, MOST), contend)
    broken = [f"a contender ended with {end}" for end in ended if end not in ("done", "Conflict", "withdrawn")]
    if ended.count("done") + ("withdrawn" in ended) != 1:
        broken.append(f"not one claim, or none of what was withdrawn: {ended}")
    judged = told(Child(lambda: asyncio.run(_judge(place, run))), "judging a request")
    if (judged["status"], judged["deeds"]) != (("succeeded", 1) if "done" in ended else ("withdrawn", 0)):
        broken.append(f"the contenders ended with {ended}, and it is {judged['status']}, done {judged['deeds']} times")
    met = {"conflicts": ended.count("Conflict"), "withdrawn": int("withdrawn" in ended)}
    return met, broken + judged["broken"]


@asynccontextmanager
async def _app(place: Place, *, worker: bool = False) -> AsyncGenerator[tuple[App, Life]]:
    life = Life(place, "plain", World(place.folder / "effects"))
    life.open()
    async with App([ExternalAgent()], life.store, worker=worker) as app:
        yield app, life
    await life.store.close()


async def _approved(place: Place) -> list[str]:
    """A request that was approved and that nobody has claimed."""
    async with _app(place, worker=True) as (app, _life):
        state = await app.asks.ask(ask("ship", 1))
        await app.wait(state.id, SECONDS)
        [row] = await app.inbox.list(run=state.id)
        await app.inbox.approve(row, by=PERSON)
        state = await app.asks.wait(state.id, SECONDS)
        return [state.id, state.digest]


async def _contend(place: Place, shown: tuple[str, str], doors: tuple[int, int], *, withdraws: bool) -> str:
    run, digest = shown
    async with _app(place) as (app, life):
        os.write(doors[0], b"!")
        os.read(doors[1], 1)
        name = f"worker {os.getpid()}"
        try:
            if withdraws:
                await app.asks.withdraw(run)
                return "withdrawn"
            await carry_out(app, await app.asks.claim(run, digest, name), life.world, name)
        except Conflict:
            return "Conflict"
        return "done"


async def _judge(place: Place, run: str) -> dict[str, Any]:
    async with _app(place) as (app, life):
        deeds = life.world.deeds()
        report = await check(life.store, effects=Counter(deed.key for deed in deeds))
        broken = [f"the checker: {violation}" for violation in report.violations]
        return {"status": (await app.asks.get(run)).status, "deeds": len(deeds), "broken": broken}
