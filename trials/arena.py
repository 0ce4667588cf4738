"""Where contests are held: one store, opened many times over as by many processes, a clock that can be set, a world.

Each contender has a journal object of its own, with its own connections and threads, so that only the store decides
between them. It knows no contest.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any

from keyturn import Agent, Approval, Conflict, Runner, RunState, ToolContext, function_tool
from keyturn.audit.checker import Told, check
from keyturn.core.codec import Log
from keyturn.core.errors import Expired
from keyturn.directory.people import People
from keyturn.engine.run.log_cache import log_in
from keyturn.engine.run.used_states import UsedStates
from keyturn.inbox.desk import Inbox
from keyturn.journal.rows import Query, RequestRow
from keyturn.realtime import RealtimeAgent
from keyturn.testing import ScriptedModel

from .lifecycle import call, script
from .lives import MEMORY, Place

CONTENDERS = 8
TERMS = {
    "timed": Approval(expires="1h"),
    "joint": Approval(quorum=2),
    "joint_deny": Approval(quorum=2, deny_quorum=2),
    "led": Approval(role="lead"),
    "glassy": Approval(role="lead", break_glass="chief"),
    "climbing": Approval(role="lead", expires="1h", on_expiry="escalate", escalate_to=["role:chief"]),
}


class Arena:
    """One store and those who contend for its runs."""

    def __init__(self, place: Place, count: int = CONTENDERS) -> None:
        self.place, self.ahead = place, place.ahead
        self.journals: list[Any] = [place.open(self.now) for _ in range(count)]
        self.deeds = Counter[str]()
        self.by_run = Counter[str]()
        self.told: list[Told] = []
        tools = [self._tool("pay", needs_approval=True), self._tool("free")]
        tools += [self._tool(name, approval=terms) for name, terms in TERMS.items()]
        self.agents = {
            tool.name: Agent(tool.name, model=ScriptedModel(script([call(tool.name)], "done")), tools=tools)
            for tool in tools
        }
        self.talker = RealtimeAgent[Any]("talk", instructions="Help.", tools=tools[:1])
        self._people = [People(journal) for journal in self.journals]
        self._begun = asyncio.Lock()
        self._somebody = 0

    def now(self) -> int:
        """The arena's time."""
        return time.time_ns() // 1_000_000 + self.ahead

    def inbox(self, number: int) -> Inbox:
        """One contender's inbox."""
        return Inbox(self.journals[number], people=self._people[number])

    def people(self, number: int) -> People:
        """The directory as one contender reads it."""
        return self._people[number]

    async def boss(self) -> str:
        """Somebody who keeps their role; the directory begins with them."""
        async with self._begun:
            if not (await self._people[0].directory()).place:
                await self._people[0].start("root")
                await self._people[0].add("boss", roles=["lead"], by="root")
        return "boss"

    async def somebody(self, role: str) -> str:
        """Somebody new, with a role."""
        await self.boss()
        self._somebody += 1
        name = f"somebody-{self._somebody}"
        await self._people[0].add(name, roles=[role], by="root")
        return name

    async def paused(self, name: str = "pay") -> tuple[str, RequestRow]:
        """A new run whose call waits, and its request."""
        run = (await Runner.run(self.agents[name], "go", journal=self.journals[0])).run_id
        [request] = await self.journals[0].requests(Query(run=run))
        return run, request

    async def state(self, number: int, run: str, name: str = "pay") -> RunState[Any]:
        """The run as one contender loads it, who remembers nothing of it: here only the store decides."""
        state = await RunState.load(self.journals[number], run, self.agents[name])
        state.live.used = UsedStates()
        return state

    async def resumed(self, state: RunState[Any], name: str = "pay") -> Any:
        """Resume; the final output, or None where something waits."""
        return (await Runner.run(self.agents[name], state)).final_output

    async def log(self, run: str) -> Log:
        """A run's log."""
        return await log_in(self.journals[0], run)

    async def sound(self) -> list[str]:
        """What the checker has to say in the end, of the whole store."""
        report = await check(self.journals[0], effects=self.deeds, acknowledged=self.told)
        return [f"the checker: {violation}" for violation in report.violations]

    async def close(self) -> None:
        """Close all journals."""
        if self.place.url != MEMORY:
            for journal in self.journals:
                await journal.close()

    def _tool(self, name: str, **options: Any) -> Any:
        async def act(context: ToolContext[Any], n: int) -> str:
            self.deeds[context.idempotency_key] += 1
            self.by_run[context.run_id] += 1
            return f"{context.tool_name} {n}"

        return function_tool(act, name_override=name, **options)


def empty(place: Path) -> Path:
    """A folder, made."""
    place.mkdir(parents=True, exist_ok=True)
    return place


async def at_once(contenders: Iterable[Awaitable[Any]], waits: Iterable[float]) -> list[Any]:
    """Start all together, each a little later; what each got, or what stopped it. Only losing is no surprise."""

    async def after(wait: float, contender: Awaitable[Any]) -> Any:
        await asyncio.sleep(wait)
        try:
            return await contender
        except (Conflict, Expired) as error:
            return error

    return await asyncio.gather(*(after(*each) for each in zip(waits, contenders, strict=True)))
