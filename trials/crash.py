"""`make crash KILLS=10000 [SEED=7]`: processes are ended at every write and message, and what they leave is settled.

`python -m trials.crash --kills 10000 --seed 7 --jobs 2`; `--replay TRIAL` tries one again that was printed. The points
of each kind are taken in a random order that the seed fixes, each once until all were tried, and then once more with
other dice. Faults that do not kill come on top. What is tried, and how, stands in `attempt.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from keyturn import MemoryJournal
from keyturn.testing.postgres import PostgresMissing

from .attempt import KINDS, Found, Trial, attempt
from .crew import Say, crew
from .lifecycle import CHAPTERS
from .lives import WAYS, uncut
from .places import Places, places
from .table import Tally

# One in so many lives that settle what another left is ended as well.
AGAIN = 4
MOST_AGAIN = 60
# A trial whose fault did not come about is not counted; a worker gives up a kind after so many in a row.
PATIENCE = 200
Seen = dict[str, dict[str, int]]


def budgets(kills: int, names: list[str]) -> dict[str, int]:
    """How many trials of each kind: the kills in their shares, the other faults a third as many in theirs."""
    made = dict[str, int]()
    for killing, total in ((True, kills), (False, -(-kills // 3))):
        chosen = [name for name in names if KINDS[name].kills is killing]
        shares = sum(KINDS[name].share for name in chosen)
        made |= {name: math.ceil(total * KINDS[name].share / shares) for name in chosen}
    return made


def counted(ours: Places, whole: dict[str, Any], stores: list[str], ways: list[str], chapters: list[str]) -> Seen:
    """How much of each thing there is to count in each chapter and way: played once without a fault."""
    seen: Seen = {}
    for store, chapter, way in product(stores, chapters, ways):
        kind = next(name for name, each in KINDS.items() if each.store == store)
        found = attempt(Trial(kind, chapter, way, -1), ours, whole)
        if found.broken:
            raise SystemExit(f"{store}, {chapter}, {way}: broken without any fault: {found.broken}")
        seen[f"{store}/{chapter}/{way}"] = found.seen
    return seen


def points(name: str, seen: Seen) -> list[tuple[str, str, int]]:
    """Every point of a kind: chapter, way, K."""
    kind = KINDS[name]
    return [
        (chapter, way, at)
        for chapter in CHAPTERS
        for way in WAYS
        for at in range(1, seen.get(f"{kind.store}/{chapter}/{way}", {}).get(kind.counts, 0) + 1)
    ]


def trials(name: str, places: list[tuple[str, str, int]], seed: int, share: tuple[int, int]) -> Iterator[Trial]:
    """One worker's trials of a kind, for ever."""
    worker, workers = share
    turn = 0
    while places:
        dice = random.Random(f"{seed}/{name}/{turn}")
        order = places.copy()
        dice.shuffle(order)
        for number, (chapter, way, at) in enumerate(order):
            again = dice.randint(1, MOST_AGAIN) if KINDS[name].kills and dice.randrange(AGAIN) == 0 else 0
            if number % workers == worker:
                yield Trial(name, chapter, way, at, again, dice.randrange(1_000_000))
        turn += 1


def known(chapters: Iterable[str]) -> dict[str, Any]:
    """What every story of these chapters comes to when nothing goes wrong."""
    names = [story for chapter in CHAPTERS if chapter in chapters for story in CHAPTERS[chapter]]
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(uncut(MemoryJournal, Path(folder), names))


def series(kills: int, seed: int, jobs: int, names: list[str], ways: list[str], chapters: list[str]) -> Tally:
    """Try everything; what it came to."""
    stores = sorted({KINDS[name].store for name in names})
    whole = known(chapters)
    with places(stores) as ours:
        seen = counted(ours, whole, stores, ways, chapters)
        todo = budgets(kills, names)
        tally = Tally(f"Kill -9 and other faults, seed {seed}")
        for name in names:
            tally.row(name).points = len(points(name, seen))

        def work(number: int, say: Say) -> None:
            part = ours.of(number)
            for name, count in todo.items():
                order = trials(name, points(name, seen), seed, (number, jobs))
                _tried(order, count // jobs + (number < count % jobs), lambda trial: attempt(trial, part, whole), say)

        crew(jobs, work, tally, sum(todo.values()))
        return tally


def _tried(order: Iterator[Trial], count: int, one: Callable[[Trial], Found], say: Say) -> None:
    """Try until so many faults came about."""
    missed = 0
    for trial in order:
        if count <= 0 or missed > PATIENCE:
            return
        found = one(trial)
        missed = 0 if found.struck else missed + 1
        count -= found.struck
        if found.struck or found.broken:
            say(trial.kind, found.met, found.broken, str(trial))


def replay(texts: list[str], out: Path | None) -> int:
    """Try trials again, one after the other, and say what was found."""
    tried = [Trial.read(text) for text in texts]
    whole, told = known({trial.chapter for trial in tried}), list[dict[str, Any]]()
    with places(sorted({KINDS[trial.kind].store for trial in tried})) as ours:
        for trial in tried:
            found = attempt(trial, ours, whole)
            print(f"{trial}: {'struck' if found.struck else 'its fault did not come about'}; {found.met}")
            print("".join(f"  {each}\n" for each in found.broken), end="")
            told.append({"trial": str(trial), "struck": found.struck, "met": found.met, "broken": found.broken})
    if out:
        out.write_text(json.dumps(told, indent=1) + "\n")
    return 1 if any(each["broken"] for each in told) else 0


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m trials.crash", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1_000, metavar="N", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="default: another each time")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at once (default %(default)s)")
    parser.add_argument("--kinds", default="", metavar="WORD", help="only kinds that contain this")
    parser.add_argument("--ways", default=",".join(WAYS), metavar="A,B", help="default: %(default)s")
    parser.add_argument("--chapters", default=",".join(CHAPTERS), metavar="A,B", help="default: %(default)s")
    parser.add_argument("--replay", nargs="+", metavar="TRIAL", help="try these again, as they were printed")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the counts there too")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Try, print the table, and fail if a promise was broken."""
    args = arguments(argv)
    for name in ("keyturn", "psycopg"):
        logging.getLogger(name).setLevel(logging.ERROR)  # that a store fails is what this is about
    if args.replay:
        return replay(args.replay, args.json)
    seed = random.randrange(1_000_000) if args.seed is None else args.seed
    names = [name for name in KINDS if args.kinds in name]
    parts = args.ways.split(","), args.chapters.split(",")
    begun = time.monotonic()
    try:
        tally = series(args.kills, seed, args.jobs, names, *parts)
    except PostgresMissing as missing:
        print(f"only SQLite: {missing}", file=sys.stderr)
        names = [name for name in names if KINDS[name].store == "sqlite"]
        tally = series(args.kills, seed, args.jobs, names, *parts)
    kills = sum(row.tried for name, row in tally.rows.items() if KINDS[name].kills)
    spent = f"{kills:,} kills in {time.monotonic() - begun:.0f} s with {args.jobs} processes."
    again = 'Try one again with: python -m trials.crash --replay "TRIAL"'
    print(tally.text(spent, *([again] if tally.broken else [])))
    if args.json:
        tally.save(args.json)
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
