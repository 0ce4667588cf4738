"""`make race N=10000 [SEED=7]`: many go for one run or one request at once, and exactly one may win.

`python -m trials.race --n 10000 --seed 7 --jobs 2`; `--each 10000 --kinds "two approvers,one budget"` holds so many of
each of these kinds on each store. Each worker has stores of its own, so that those who contend for one do so alone; the
checker reads each store when its contests are over. The contests stand in `contests.py` and the files named like it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyturn.testing.postgres import PostgresMissing

from . import (
    contests,
    contests_apart,
    contests_of_limits,
    contests_of_people,
    contests_outside,
    contests_realtime,
)
from .arena import Arena
from .crew import Say, crew
from .places import Places, places
from .table import Tally

STORES = ("memory", "sqlite", "postgresql")
FILES = ("sqlite", "postgresql")
SHARES = {"memory": 0.2, "sqlite": 0.5, "postgresql": 0.3}
# So many contests in one store before the checker reads it and another is made.
ROUND = 250
# A contest takes a tenth of a second; on a machine that is busy with other things it may be kept waiting for long.
PATIENCE = 300.0
# So many contests are held beside one another where none of them moves the clock.
BESIDE = 4


@dataclass(frozen=True)
class Kind:
    """A contest, its share of all, and where it is held: in one process, between processes, or beside workers.

    `alone` is one that moves the clock of its arena: no other is held beside it.
    """

    contest: Any
    share: float
    where: str = "arena"
    stores: tuple[str, ...] = STORES
    alone: bool = False


KINDS: dict[str, Kind] = {
    "processes resume one run": Kind(contests_apart.processes, 2, "apart", FILES),
    "stopped past its hold (SIGSTOP)": Kind(contests_apart.stopped, 3, "apart", FILES),
    "processes claim one request": Kind(contests_outside.claimers, 1, "apart", FILES),
    "16 processes write one file": Kind(contests_apart.storm, 0.2, "apart", ("sqlite",)),
    "2 to 8 resume one run": Kind(contests.resumers, 26),
    "two approvers": Kind(contests.approvers, 36),
    "one click, 2 to 8 times": Kind(contests.clicks, 7),
    "cancel against approve": Kind(contests.cancels, 9),
    "withdrawal against the start": Kind(contests.withdrawals, 9),
    "expiry against approve": Kind(contests.expiries, 8, alone=True),
    "runs race for one budget": Kind(contests_of_limits.budgets, 20),
    "a quorum of several": Kind(contests_of_people.quorums, 12),
    "a vote withdrawn against the deciding one": Kind(contests_of_people.withdrawn_votes, 5),
    "a role taken while they approve": Kind(contests_of_people.demotions, 6),
    "glass against rejection": Kind(contests_of_people.glasses, 6),
    "escalation against approve": Kind(contests_of_people.escalations, 5, alone=True),
    "claims and snoozes": Kind(contests_of_people.claims, 5),
    "two lists decided at once": Kind(contests_of_people.lists, 3),
    "two dispatchers": Kind(contests_of_people.dispatchers, 3, alone=True),
    "two runs in one session": Kind(contests.sessions, 3),
    "processes attend one run": Kind(contests_realtime.attendants, 0.5, "apart", FILES),
    "in the session against the inbox": Kind(contests_realtime.live_deciders, 4),
    "approve against hanging up": Kind(contests_realtime.hang_ups, 4),
    "workers and resumers": Kind(None, 6, "workers"),
}
_SHARES = sum(kind.share for kind in KINDS.values())


def budget(name: str, n: int, store: str) -> int:
    """How many contests of a kind: half of them on SQLite."""
    return math.ceil(n * KINDS[name].share / _SHARES * SHARES[store])


def mine(count: int, number: int, jobs: int) -> int:
    """One worker's part."""
    return count // jobs + (number < count % jobs)


class Contests:
    """One worker's contests on one store."""

    def __init__(self, ours: Places, store: str, seed: str, say: Say) -> None:
        self._ours, self._store, self._seed, self._say = ours, store, seed, say
        self.dice = random.Random(seed)
        self._beside = asyncio.Semaphore(BESIDE)

    def apart(self, name: str, count: int) -> None:
        """Contests between processes, each on a store of its own. This process must have no threads yet."""
        for _ in range(count):
            place = self._ours.new(self._store)
            try:
                met, broken = KINDS[name].contest(place, self.dice)
            except AssertionError as error:
                met, broken = {}, [str(error)]
            self._tell(name, met, broken)
            self._ours.clear(place)

    async def together(self, todo: dict[str, int]) -> None:
        """Contests in this process, round after round."""
        left = dict(todo)
        while any(left.values()):
            turn = {name: min(count, max(round(ROUND * count / sum(left.values())), 1)) for name, count in left.items()}
            place = self._ours.new(self._store)
            arena = Arena(place)
            for name, count in turn.items():
                left[name] -= count
                await self._held(arena, name, count)
            broken = await arena.sound()
            if broken:
                self._tell("the checker, of a whole store", {}, broken)
            await arena.close()
            self._ours.clear(place)

    async def _held(self, arena: Arena, name: str, count: int) -> None:
        kind = KINDS[name]
        if kind.alone:
            for _ in range(count):
                await self._one(arena, name, kind.contest)
        elif kind.where != "workers":
            await asyncio.gather(*(self._one(arena, name, kind.contest) for _ in range(count)))
        elif count:
            async with contests.Workers(arena) as contest:
                for _ in range(count):
                    await self._one(arena, name, contest)

    async def _one(self, arena: Arena, name: str, contest: contests.Contest) -> None:
        try:
            async with self._beside, asyncio.timeout(PATIENCE):
                met, broken = await contest(arena, self.dice)
        except Exception as error:  # whatever it is, it is none of the ways in which a contest may end
            met, broken = {}, [f"{type(error).__name__}: {error}"]
        self._tell(name, met, broken)

    def _tell(self, name: str, met: dict[str, int], broken: list[str]) -> None:
        self._say(f"{self._store}: {name}", met, broken, f"seed {self._seed}")


def series(n: int, seed: int, jobs: int, names: list[str], stores: list[str], each: int = 0) -> Tally:
    """Hold all contests, or `each` of every kind on every store; what they came to."""
    tally = Tally(f"Races, seed {seed}")
    todo = {
        store: {name: each or budget(name, n, store) for name in names if store in KINDS[name].stores}
        for store in stores
    }
    for store in stores:
        for name in todo[store]:
            tally.row(f"{store}: {name}")
    with places(stores) as all_places:

        def work(number: int, say: Say) -> None:
            ours = all_places.of(number)
            held = {store: Contests(ours, store, f"{seed}/{store}/{number}", say) for store in stores}
            for store, ones in held.items():
                for name in (name for name in todo[store] if KINDS[name].where == "apart"):
                    ones.apart(name, mine(todo[store][name], number, jobs))
            for store, ones in held.items():
                inside = [name for name in todo[store] if KINDS[name].where != "apart"]
                asyncio.run(ones.together({name: mine(todo[store][name], number, jobs) for name in inside}))

        crew(jobs, work, tally, sum(sum(counts.values()) for counts in todo.values()))
    return tally


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m trials.race", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=1_000, metavar="N", help="contests (default %(default)s)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="default: another each time")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at once (default %(default)s)")
    parser.add_argument("--each", type=int, default=0, metavar="N", help="so many of each kind on each store")
    parser.add_argument("--kinds", default="", metavar="A,B", help="only kinds that contain one of these")
    parser.add_argument("--stores", default=",".join(STORES), metavar="A,B", help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the counts there too")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Hold the contests, print the table, and fail if a promise was broken."""
    args = arguments(argv)
    logging.getLogger("keyturn").setLevel(logging.ERROR)
    seed = random.randrange(1_000_000) if args.seed is None else args.seed
    names = [name for name in KINDS if any(word in name for word in args.kinds.split(","))]
    begun = time.monotonic()
    try:
        tally = series(args.n, seed, args.jobs, names, args.stores.split(","), args.each)
    except PostgresMissing as missing:
        print(f"without PostgreSQL: {missing}", file=sys.stderr)
        left = [store for store in args.stores.split(",") if store != "postgresql"]
        tally = series(args.n, seed, args.jobs, names, left, args.each)
    print(tally.text(f"{tally.tried:,} races in {time.monotonic() - begun:.0f} s with {args.jobs} processes."))
    if args.json:
        tally.save(args.json)
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
