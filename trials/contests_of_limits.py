"""The contests for a limit that several runs share: as much is let run as there is room for, and never more.

Each contender has a journal object of its own, so that only the store decides between them.
"""

from __future__ import annotations

import random
from typing import Any

from keyturn import Agent, Budget, Conflict, Policy, Rule, Runner
from keyturn.testing import ScriptedModel

from .arena import CONTENDERS, Arena, at_once
from .contests import Met, waits
from .lifecycle import call, script


async def budgets(arena: Arena, dice: random.Random) -> Met:
    """Runs race for one budget."""
    count, amount = dice.randint(2, CONTENDERS), dice.randint(1, 9)
    most = dice.randint(0, count) * amount + dice.randint(0, amount - 1)
    per = dice.choice([None, "1h"])
    limit = Budget("n", most, per=per, of="tenant", name=f"race {dice.random()}")
    policy = Policy(Rule("ask", over=limit), Rule("allow"))
    agents = [_taker(arena, amount) for _ in range(count)]
    contenders = [Runner.run(agent, "go", journal=arena.journals[n], policy=policy) for n, agent in enumerate(agents)]
    ended = await at_once(contenders, waits(dice, count))
    ran = sum(arena.by_run[end.run_id] for end in ended if not isinstance(end, Conflict))
    broken = [f"told {end!r}" for end in ended if isinstance(end, Conflict)]
    if ran != min(count, most // amount):
        broken.append(f"{ran} of {count} calls of {amount} ran under a budget of {most}")
    asked = sum(bool(end.interruptions) for end in ended if not isinstance(end, Conflict))
    if asked != count - ran:
        broken.append(f"{ran} of {count} ran and {asked} asked")
    return {"asked": asked}, broken


def _taker(arena: Arena, amount: int) -> Agent[Any]:
    model = ScriptedModel(script([call("free", n=amount)], "done"))
    return Agent("taker", model=model, tools=arena.agents["free"].tools)
