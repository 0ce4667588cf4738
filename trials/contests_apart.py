"""The contests between processes: several that resume one run, and one that stood still past the end of its hold.

Each contender is forked, opens the store by itself and tells how it ended. Whoever holds such a contest has no threads.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from keyturn.audit.checker import check
from keyturn.core.errors import Conflict
from keyturn.inbox.desk import Inbox
from keyturn.journal.base import Claim, Lease
from keyturn.journal.rows import Changes, Query

from .contests import Met
from .forks import Child
from .lifecycle import PERSON, STORIES, Story
from .lives import LATER_MS, Life, Place
from .world import World

MOST = 8
STORM = 16
# A story of one gated call and one free one appends so often once it is approved.
APPENDS = 6
STORY = STORIES["pays"]


def processes(place: Place, dice: random.Random) -> Met:
    """B3: several processes resume one approved run; its tools run once."""
    run = _begun(place)
    ended = at_the_gate(dice.randint(2, MOST), lambda told, gate: _contend(place, run, told, gate))
    broken = [f"a contender ended with {end}" for end in ended if end not in ("done", "Conflict")]
    broken += [] if "done" in ended else [f"nobody won: {ended}"]
    return {"conflicts": ended.count("Conflict")}, broken + judged(place, run)


def at_the_gate(count: int, contend: Callable[[int, int], Coroutine[Any, Any, Any]]) -> list[Any]:
    """Let so many processes loose at once, and return what each ended with; each says when it is ready."""
    ready, told = os.pipe()
    gate, go = os.pipe()

    def contender() -> Any:
        os.close(go)
        return asyncio.run(contend(told, gate))

    children = [Child(contender) for _ in range(count)]
    os.close(told)
    os.close(gate)
    for _ in children:
        os.read(ready, 1)
    os.close(go)
    ended = [child.wait().said for child in children]
    os.close(ready)
    return ended


def storm(place: Place, dice: random.Random) -> Met:
    """B11: sixteen processes append at once, each to its own run; nobody is told that the file is locked."""
    gate, go = os.pipe()
    counts = [dice.randint(10, 30) for _ in range(STORM)]

    def writer(number: int) -> Any:
        os.close(go)
        return asyncio.run(_write(place, f"{number:032x}", counts[number], gate))

    children = [Child(lambda number=number: writer(number)) for number in range(STORM)]
    os.close(gate)
    os.close(go)
    ended = [child.wait().said for child in children]
    broken = [f"a writer ended with {end}" for end, count in zip(ended, counts, strict=True) if end != count]
    return {"lines": sum(counts)}, broken


async def _write(place: Place, run: str, count: int, gate: int) -> int:
    journal = place.open(None)
    os.read(gate, 1)
    for number in range(count):
        await journal.append(run, number, [b"line"])
    kept = await journal.read(run)
    await journal.close()
    return len(kept)


def stopped(place: Place, dice: random.Random) -> Met:
    """B4: a process is stopped at an append, past the end of its hold; another takes over; then it goes on.

    What it had not started it is refused; what it had started is in doubt, and the other one leaves it alone.
    """
    run = _begun(place)
    at, when = dice.randint(1, APPENDS), dice.choice(("before", "after"))
    first = Child(lambda: asyncio.run(_stand_still(place, run, at, when)))
    _, status = os.waitpid(first.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        return {"not stopped": 1}, [f"the first process ended with {status} before it stood still"]
    second = Child(lambda: asyncio.run(_take_over(replace(place, ahead=LATER_MS), run))).wait().said
    seen = len(World(place.folder / "effects").deeds())
    os.kill(first.pid, signal.SIGCONT)
    ended = first.wait().said
    broken = [f"who took over ended with {second}"] if second not in ("done", "doubt") else []
    late = len(World(place.folder / "effects").deeds()) - seen
    if second == "done" and late:
        broken.append(f"the effect happened {late} times more after another process had ended the run")
    if ended not in ("Conflict", "done"):
        broken.append(f"who stood still ended with {ended}")
    met = {"conflicts": int(ended == "Conflict"), "doubts": int(second == "doubt")}
    return met, broken + judged(replace(place, ahead=2 * LATER_MS), run)


def told(child: Child, what: str) -> Any:
    said = child.wait().said
    if said is None or (isinstance(said, dict) and "error" in said):
        raise AssertionError(f"{what}: {said}")
    return said


def _begun(place: Place) -> str:
    """A run whose first call was approved and that nobody has resumed."""

    async def begin() -> str:
        life = _life(place)
        run = (await life.run(STORY, "go")).run_id
        [request] = await life.store.requests(Query(run=run))
        await Inbox(life.store).approve(request, by=PERSON)
        await life.store.close()
        return run

    return told(Child(lambda: asyncio.run(begin())), "beginning a run")


def _life(place: Place) -> Life:
    life = Life(place, "plain", World(place.folder / "effects"))
    life.open()
    return life


async def _contend(place: Place, run: str, told: int, gate: int) -> str:
    life = _life(place)
    state = await life.state(STORY, run)
    os.write(told, b"!")
    os.read(gate, 1)
    return await _ended(life.run(STORY, state))


async def _ended(running: Any) -> str:
    try:
        result = await running
    except Conflict:
        return "Conflict"
    return "doubt" if result.interruptions else "done"


class _Stopping:
    """A store whose process stops itself around one of its appends."""

    def __init__(self, store: Any, at: int, when: str) -> None:
        self._store, self._at, self._when, self._count = store, at, when, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(
        self,
        run: str,
        expected: int,
        lines: Sequence[bytes],
        claim: Claim | None = None,
        changes: Changes | None = None,
        lease: Lease | None = None,
    ) -> Claim | None:
        """Append, and stop before or after, once."""
        self._count += 1
        self._perhaps_stop("before")
        taken = await self._store.append(run, expected, lines, claim, changes, lease)
        self._perhaps_stop("after")
        return taken

    def _perhaps_stop(self, when: str) -> None:
        if (self._count, self._when) == (self._at, when):
            os.kill(os.getpid(), signal.SIGSTOP)


async def _stand_still(place: Place, run: str, at: int, when: str) -> str:
    life = _life(place)
    life.store = _Stopping(life.store, at, when)
    return await _ended(life.run(STORY, await life.state(STORY, run)))


async def _take_over(place: Place, run: str) -> str:
    """Resume and decide nothing: of what is in doubt nobody can know while the other may go on."""
    life = _life(place)
    return await _ended(life.run(STORY, await life.state(STORY, run)))


def judged(place: Place, run: str, story: Story = STORY) -> list[str]:
    """Settle what is left, and say what is wrong in the end."""

    async def judge() -> list[str]:
        life = _life(replace(place, ahead=place.ahead + LATER_MS))
        state = await life.state(story, run)
        while state.live.run.status != "finished":
            await life.run(story, state)
            state = await life.state(story, run)
        deeds = Counter(deed.what for deed in life.world.deeds())
        broken = [] if deeds == Counter(story.effects) else [f"the world saw {dict(deeds)}"]
        report = await check(life.store, effects=Counter(deed.key for deed in life.world.deeds()))
        await life.store.close()
        return broken + [f"the checker: {violation}" for violation in report.violations]

    return told(Child(lambda: asyncio.run(judge())), "judging a run")


Apart = Callable[[Place, random.Random], Met]
