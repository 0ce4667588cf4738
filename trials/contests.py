"""The contests that are held inside one process: who resumes, who decides, who cancels, what the clock says.

A contest takes an arena and dice, holds one race, and tells what it met and which promise was broken.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from keyturn import App, Conflict, Runner
from keyturn.audit.checker import Told
from keyturn.core.errors import Expired
from keyturn.core.events import ApprovalWithdrawn, CallDecided, CallStarted, RunCancelled
from keyturn.journal.rows import Query, RequestRow
from keyturn.sessions.sqlite import SQLiteSession

from .arena import CONTENDERS, Arena, at_once

Met = tuple[dict[str, int], list[str]]
Contest = Callable[[Arena, random.Random], Awaitable[Met]]

APART = 0.002
HOUR_MS = 3_600_000


def waits(dice: random.Random, count: int) -> list[float]:
    """Who starts how much later: often all at the same time."""
    return [0.0 if dice.random() < 0.5 else dice.random() * APART for _ in range(count)]


async def resumers(arena: Arena, dice: random.Random) -> Met:
    """B3: several resume one approved run; its tool runs once, and who comes too late is told."""
    run, request = await arena.paused()
    count = dice.randint(2, CONTENDERS)
    said_before = dice.random() < 0.5
    if said_before:
        await _approve(arena, 0, run, request)
    states = [await arena.state(number, run) for number in range(count)]
    if not said_before:
        for number, state in enumerate(states):
            state.approve(state.get_interruptions()[0], by=f"person {number}")
    ended = await at_once((arena.resumed(state) for state in states), waits(dice, count))
    return await _once(arena, run, ended)


async def _once(arena: Arena, run: str, ended: list[Any]) -> Met:
    """One effect, at least one who saw the end, and every loser knows who won."""
    broken = list[str]()
    lost = [end for end in ended if isinstance(end, Conflict)]
    if arena.by_run[run] != 1:
        broken.append(f"the effect happened {arena.by_run[run]} times among {len(ended)}")
    if len(lost) == len(ended):
        broken.append(f"nobody won: {lost}")
    broken += [f"told {end!r}" for end in ended if end not in lost and not str(end).startswith("done")]
    broken += [f"a loser is not told who won: {end}" for end in lost if end.winner is None]
    return {"conflicts": len(lost)}, broken + await over(arena, run)


async def still_waits(arena: Arena, run: str) -> bool:
    """Whether anything of a run waits; that somebody reviews what ran is no waiting."""
    return any(row.kind != "review" for row in await arena.journals[0].requests(Query(run=run, state="open")))


async def over(arena: Arena, run: str, status: str = "finished") -> list[str]:
    """The run is over, nothing of it waits, and its call was decided once."""
    [row] = await arena.journals[0].runs(Query(run=run))
    broken = list[str]()
    if row.status != status or row.waiting:
        broken.append(f"the run is {row.status}, not {status}; {row.waiting} wait")
    if await still_waits(arena, run):
        broken.append("a request of it is open")
    decided = await decided_in(arena, run)
    if len(decided) > 1:
        broken.append(f"decided more than once: {decided}")
    return broken


async def decided_in(arena: Arena, run: str) -> list[str]:
    """How the calls of a run were decided, in order."""
    log = await arena.log(run)
    return [event.decision.verdict for step in log.steps for event in step.events if isinstance(event, CallDecided)]


async def _approve(arena: Arena, number: int, run: str, request: RequestRow, by: str = "ann") -> RequestRow:
    row = await arena.inbox(number).approve(request, by=by)
    arena.told.append(Told(run, row.call, "approve", by))
    return row


async def _reject(arena: Arena, number: int, run: str, request: RequestRow, by: str = "bob") -> RequestRow:
    row = await arena.inbox(number).reject(request, by=by)
    arena.told.append(Told(run, row.call, "reject", by))
    return row


async def approvers(arena: Arena, dice: random.Random) -> Met:
    """B1, B2: two decide one request, perhaps alike; one decision stands, and the other learns whose and when."""
    run, request = await arena.paused()
    both = [
        _approve(arena, 1, run, request),
        (_reject if dice.random() < 0.7 else _approve)(arena, 2, run, request, "bob"),
    ]
    ended = await at_once(both, waits(dice, 2))
    lost = [end for end in ended if isinstance(end, Conflict)]
    won = [end for end in ended if isinstance(end, RequestRow)]
    broken = list[str]()
    if len(lost) != 1 or len(won) != 1:
        return {"conflicts": len(lost)}, [f"not one winner and one loser: {ended}"]
    [winner], [loser] = won, lost
    if (loser.winner, loser.decision, loser.at) != (winner.by, winner.state, winner.closed_at):
        broken.append(f"the loser was told {loser.winner} {loser.decision} {loser.at}; it was {winner}")
    verdicts = await decided_in(arena, run)
    if verdicts != [winner.state]:
        broken.append(f"decided {verdicts}, and {winner.state} won")
    await arena.resumed(await arena.state(0, run))
    if arena.by_run[run] != (winner.state == "approve"):
        broken.append(f"{winner.state} won, and the effect happened {arena.by_run[run]} times")
    return {"conflicts": 1}, broken + await over(arena, run)


async def clicks(arena: Arena, dice: random.Random) -> Met:
    """B9: one person's click arrives many times; each time the answer is the same, and there is one decision."""
    run, request = await arena.paused()
    count = dice.randint(2, CONTENDERS)
    ended = await at_once((_approve(arena, number, run, request) for number in range(count)), waits(dice, count))
    broken = [f"told {end!r}" for end in ended if end != ended[0] or not isinstance(end, RequestRow)]
    await arena.resumed(await arena.state(0, run))
    if arena.by_run[run] != 1:
        broken.append(f"the effect happened {arena.by_run[run]} times")
    return {"conflicts": 0}, broken + await over(arena, run)


async def cancels(arena: Arena, dice: random.Random) -> Met:
    """B6: a run is cancelled while its call is approved and somebody resumes it; what begins after that is nothing."""
    run, request = await arena.paused()
    state = await arena.state(2, run)
    state.approve(state.get_interruptions()[0], by="ann")
    contenders: list[Any] = [arena.inbox(0).cancel(run, by="cal"), _approve(arena, 1, run, request)]
    if dice.random() < 0.5:
        contenders.append(arena.resumed(state))
    ended = await at_once(contenders, waits(dice, len(contenders)))
    log = await arena.log(run)
    events = [event for step in log.steps for event in step.events]
    cancelled = next((place for place, event in enumerate(events) if isinstance(event, RunCancelled)), None)
    broken = list[str]()
    if cancelled is None:
        if not isinstance(ended[0], Conflict) or log.run.status != "finished":
            broken.append(f"the cancellation is gone: {ended}")
    elif any(isinstance(event, CallStarted) for event in events[cancelled:]):
        broken.append("a call was started in a run that was cancelled")
    started = sum(isinstance(event, CallStarted) for event in events)
    if arena.by_run[run] > min(started, 1):
        broken.append(f"the effect happened {arena.by_run[run]} times, of {started} starts")
    if await still_waits(arena, run):
        broken.append("a request of it is open")
    return {"conflicts": sum(isinstance(end, Conflict) for end in ended)}, broken


async def expiries(arena: Arena, dice: random.Random) -> Met:
    """D1: a request runs out while it is approved: one of the two stands, and the tool runs only if it was in time."""
    run, request = await arena.paused("timed")
    assert request.expires_at is not None
    state = await arena.state(2, run, "timed")
    arena.ahead += request.expires_at - arena.now() - dice.randint(-1, 4)
    ended = await at_once([_approve(arena, 1, run, request), arena.resumed(state, "timed")], waits(dice, 2))
    arena.ahead += 10
    await arena.resumed(await arena.state(0, run, "timed"), "timed")
    verdicts = await decided_in(arena, run)
    broken = list[str]()
    if verdicts not in (["approve"], ["expire"]):
        broken.append(f"decided {verdicts}")
    if arena.by_run[run] != (verdicts == ["approve"]):
        broken.append(f"decided {verdicts}, and the effect happened {arena.by_run[run]} times")
    if isinstance(ended[0], RequestRow) != (verdicts == ["approve"]):
        broken.append(f"decided {verdicts}, and the approver was told {ended[0]!r}")
    late = sum(isinstance(end, Expired) for end in ended)
    return {"conflicts": sum(isinstance(end, Conflict) for end in ended), "expired": late}, broken + await over(
        arena, run
    )


async def withdrawals(arena: Arena, dice: random.Random) -> Met:
    """An approval is taken back while the run is resumed: the call runs or asks anew, and the loser learns which."""
    run, request = await arena.paused()
    await _approve(arena, 0, run, request)
    state = await arena.state(2, run)
    ended = await at_once([arena.inbox(1).withdraw(request, by="bob"), arena.resumed(state)], waits(dice, 2))
    log = await arena.log(run)
    events = [event for step in log.steps for event in step.events]
    taken = any(isinstance(event, ApprovalWithdrawn) for event in events)
    started = sum(isinstance(event, CallStarted) for event in events)
    broken = list[str]()
    if taken == bool(started) or arena.by_run[run] != started or started > 1:
        broken.append(f"taken back: {taken}; started {started} times, the effect happened {arena.by_run[run]} times")
    if isinstance(ended[0], RequestRow) != taken:
        broken.append(f"taken back: {taken}, and who did was told {ended[0]!r}")
    if not taken and not (isinstance(ended[0], Conflict) and ended[0].winner):
        broken.append(f"who came too late was told {ended[0]!r}")
    waiting = await arena.journals[0].requests(Query(run=run, state="open"))
    if bool(waiting) != taken:
        broken.append(f"taken back: {taken}, and {len(waiting)} wait")
    for row in waiting:  # so that the run comes to an end
        await _reject(arena, 3, run, row)
        await arena.resumed(await arena.state(3, run))
    return {"conflicts": int(not taken), "withdrawn": int(taken)}, broken


async def sessions(arena: Arena, dice: random.Random) -> Met:
    """Two runs write to one session at once; nothing that they said is lost there or stands twice."""
    name, path = f"session-{dice.random()}", arena.place.folder / "sessions.db"
    both = [SQLiteSession(name, path) for _ in range(2)]
    ended = await at_once(
        (
            Runner.run(arena.agents["free"], f"run {number}", journal=arena.journals[number], session=both[number])
            for number in range(2)
        ),
        waits(dice, 2),
    )
    items = Counter(str(item.get("type", item.get("content"))) for item in await both[0].get_items())
    for session in both:
        session.close()
    finished = sum(not isinstance(end, Conflict) for end in ended)
    broken = list[str]()
    if items["function_call"] != items["function_call_output"] or not finished:
        broken.append(f"{finished} runs finished, and the session holds {dict(items)}")
    if any(items[f"run {number}"] != 1 for number in range(2) if not isinstance(ended[number], Conflict)):
        broken.append(f"the session holds {dict(items)}")
    return {"conflicts": 2 - finished}, broken


class Workers:
    """Two apps with a worker each, for the contests in which workers take part."""

    def __init__(self, arena: Arena) -> None:
        self.apps = [App(list(arena.agents.values()), journal) for journal in arena.journals[:2]]

    async def __aenter__(self) -> Contest:
        for app in self.apps:
            await app.__aenter__()
        return self.contest

    async def __aexit__(self, *_ended: Any) -> None:
        for app in self.apps:
            await app.stop()

    async def contest(self, arena: Arena, dice: random.Random) -> Met:
        """Two workers and two who resume by hand go for a run as soon as it is approved."""
        run, request = await arena.paused()
        states = [await arena.state(number, run) for number in (2, 3)]
        contenders = [arena.resumed(state) for state in states] if dice.random() < 0.7 else []
        ended = await at_once([_approve(arena, 4, run, request), *contenders], waits(dice, 1 + len(contenders)))
        row = await self.apps[0].wait(run, 20)
        broken = [] if row.status == "finished" else [f"the run is {row.status}"]
        if arena.by_run[run] != 1:
            broken.append(f"the effect happened {arena.by_run[run]} times")
        return {"conflicts": sum(isinstance(end, Conflict) for end in ended)}, broken + await over(arena, run)
