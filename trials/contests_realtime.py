"""The contests for a run that is talked to: who attends it, who decides its call, and what a line that breaks costs.

The model is a server of the contest's own; each connection is held against the log when it is over (`talked.py`).
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

from keyturn.audit.checker import Told
from keyturn.core.errors import Conflict, NotPending, UserError
from keyturn.journal.rows import Query, RequestRow
from keyturn.realtime import RealtimeRunner, RealtimeSession
from keyturn.testing.loopback.realtime import RealtimeServer

from .arena import Arena, at_once
from .contests import Met, decided_in, over, waits
from .contests_apart import at_the_gate, judged, told
from .forks import Child
from .lifecycle import ASK, PERSON, POLICY, STORIES, call
from .lives import Life, Place
from .talked import answers, in_session, listened, speaker, talked, unheard
from .world import World

MOST = 4
STORY = STORIES["speaks"]
ROUNDS = ([call("pay")],)


def attendants(place: Place, dice: random.Random) -> Met:
    """Several processes attend one run at once and leave it now and then: its tools run once, its results are heard."""
    run = told(Child(lambda: asyncio.run(_begun(place))), "beginning a conversation")
    leaves, seed = dice.choice((0.0, 0.5)), dice.random()

    def contend(ready: int, gate: int) -> Any:
        return _attend(place, run, random.Random(f"{seed}/{os.getpid()}"), leaves, (ready, gate))

    ended = at_the_gate(dice.randint(2, MOST), contend)
    broken = [f"a contender ended with {end}" for end in ended if end not in ("done", "over", "Conflict")]
    broken += [] if "done" in ended else [f"nobody was there to the end: {ended}"]
    met = {"conflicts": ended.count("Conflict"), "came too late": ended.count("over")}
    return met, broken + judged(place, run, STORY)


def _life(place: Place) -> Life:
    life = Life(place, "plain", World(place.folder / "effects"))
    life.open()
    return life


async def _begun(place: Place) -> str:
    """A conversation that was left as soon as a call of it waited."""
    life = _life(place)
    runner = RealtimeRunner(STORY.agent(life.world), model=speaker(), journal=life.store, policy=POLICY)  # type: ignore[arg-type]
    async with RealtimeServer(answers(STORY.rounds)) as server:
        session = await runner.run(model_config={"api_key": "k", "url": server.url})
        async with session:
            await session.send_message(ASK[0])
            await _asked(session)
            await session.close(end=False)
    await life.store.close()
    return session.run_id


async def _attend(place: Place, run: str, dice: random.Random, leaves: float, doors: tuple[int, int]) -> str:
    life = _life(place)
    runner = RealtimeRunner(STORY.agent(life.world), model=speaker(), journal=life.store, policy=POLICY)  # type: ignore[arg-type]
    ready, gate = doors

    async def decide(session: RealtimeSession, item: Any) -> bool:
        await in_session(STORY, life.person, PERSON, session, item)
        return dice.random() >= leaves

    os.write(ready, b"!")
    os.read(gate, 1)
    try:
        await talked(STORY, runner, life.store, run, decide)
    except Conflict:
        return "Conflict"
    except UserError as error:
        return "over" if "is over" in str(error) else str(error)
    finally:
        await life.store.close()
    return "done"


async def live_deciders(arena: Arena, dice: random.Random) -> Met:
    """Who is in the session and who is at an inbox decide at once: one word stands, and the model hears of it once."""
    async with RealtimeServer(answers(ROUNDS)) as server, await _session(arena, 0, server) as session:
        await session.send_message(ASK[0])
        item, run = await _asked(session), session.run_id
        [request] = await arena.journals[0].requests(Query(run=run))
        words = [dice.choice(("approve", "reject")) for _ in range(2)]
        here, there = getattr(session, f"{words[0]}_tool_call"), getattr(arena.inbox(1), words[1])
        both = [_quietly(here(item, by="ann")), _quietly(there(request, by="bob"))]
        ended = await at_once(both, waits(dice, 2))
        assert await listened(server, session, _nobody)
        await session.close()
        broken = await unheard(server, arena.journals[2], run)
    verdicts = await decided_in(arena, run)
    won = [end for end in ended if not isinstance(end, Conflict | NotPending)]
    alike = words[0] == words[1]  # who says again what was said is not told that it was another who did
    if not won or (len(won) == 2 and not alike) or len(verdicts) != 1:
        broken.append(f"said {words}, not one winner: {ended}, decided {verdicts}")
    said = [word for word, end in zip(words, ended, strict=True) if end in won]
    broken += [f"{word} was acknowledged, and {verdicts} was decided" for word in said if [word] != verdicts]
    broken += [f"who lost was told {end!r}" for end in ended if isinstance(end, Conflict) and not end.winner]
    if arena.by_run[run] != verdicts.count("approve"):
        broken.append(f"decided {verdicts}, and the effect happened {arena.by_run[run]} times")
    return {"conflicts": 2 - len(won)}, broken + await over(arena, run)


async def hang_ups(arena: Arena, dice: random.Random) -> Met:
    """A call is approved at an inbox while its session is left or its line breaks: it runs once, and is heard of."""
    async with RealtimeServer(answers(ROUNDS)) as server:
        session = await (await _session(arena, 0, server)).enter()
        await session.send_message(ASK[0])
        await _asked(session)
        run, breaks = session.run_id, dice.random() < 0.5
        [request] = await arena.journals[0].requests(Query(run=run))
        end = server.hang_up(abrupt=dice.random() < 0.5) if breaks else session.close(end=False)
        row, _ = await at_once([arena.inbox(1).approve(request, by="bob"), end], waits(dice, 2))
        broken = [] if isinstance(row, RequestRow) else [f"who approved was told {row!r}"]
        arena.told += [Told(run, row.call, "approve", "bob")] if not broken else []
        if not breaks:
            session = await (await _session(arena, 2, server, run)).enter()
        assert await listened(server, session, _nobody)
        await session.close()
        broken += await unheard(server, arena.journals[3], run)
    if arena.by_run[run] != 1:
        broken.append(f"the effect happened {arena.by_run[run]} times")
    return {"lines broken": int(breaks), "left": int(not breaks)}, broken + await over(arena, run)


async def _session(arena: Arena, number: int, server: RealtimeServer, run: str | None = None) -> RealtimeSession:
    runner = RealtimeRunner(arena.talker, model=speaker(), journal=arena.journals[number])
    return await runner.run(model_config={"api_key": "k", "url": server.url}, resume=run)


async def _asked(session: RealtimeSession) -> Any:
    async for event in session:
        if event.type == "tool_approval_required":
            return event.item
    raise AssertionError("the conversation ended, and nobody was asked")


async def _nobody(_session: RealtimeSession, _item: Any) -> bool:
    return True


async def _quietly(deciding: Any) -> Any:
    try:
        return await deciding
    except NotPending as error:  # it was decided before this was looked at
        return error
