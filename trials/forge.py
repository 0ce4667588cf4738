"""`python -m trials.forge --n 10000`: forged states, lines, rows and decisions, by whoever has no key, and what came.

The oracle is that of `rot.py`: no altered effect, nothing lost silently, no error that is not ours, no end that does
not come. Half of the forgeries are written into prepared stores, half are said at a door.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .crew import Say, crew
from .forge_kinds import FORGED
from .forge_words import WORDS, Scene
from .places import Places, places
from .rot import ALARM, Files, Hung, Rotting, bounded
from .rot_case import SECONDS
from .rot_store import World, made_world
from .table import Tally

_OURS = ("altered effect", "lost silently", "untyped error", "hangs")


class Forged(Files):
    """SQLite stores into which somebody writes who has no key."""

    kinds = FORGED


async def word(name: str, dice: random.Random) -> tuple[list[str], list[str]]:
    """Play one forgery of words: how it was refused, and what is wrong."""
    World.taken()
    now = World.now
    scene: Scene | None = None
    broken = list[str]()
    try:
        async with asyncio.timeout(SECONDS):
            scene = await WORDS[name](dice)
            if scene.kept:
                await scene.tries(scene.resume())
    except TimeoutError:
        broken.append(f"hangs: no end after {SECONDS:g} s")
    except Exception as error:
        broken.append(f"untyped error: {type(error).__name__}: {error!s:.200}")
    World.now = now
    broken += [f"altered effect: {deed.what} on nobody's word" for deed in World.taken()]
    if scene is not None and "not refused" in scene.errors:
        broken.append("lost silently: a forged state was read")
    return ([] if scene is None else scene.errors), broken


def row(refused: Sequence[str], broken: list[str]) -> dict[str, int]:
    """What a forgery met."""
    met = {"refused or reported": bool(refused)}
    return met | {name: sum(each.startswith(name) for each in broken) for name in _OURS}


async def words(seed: int, numbers: range, tell: Any) -> None:
    """Play forgeries of words one after another."""
    for number in numbers:
        name = list(WORDS)[number % len(WORDS)]
        named = f"--seed {seed} --case words/{number}"
        try:
            with bounded():
                refused, broken = await word(name, random.Random(f"{seed}/words/{number}"))
        except Hung:
            refused, broken = [], [f"hangs: the loop stood still for {ALARM} s"]
        tell(name, row(refused, broken), broken, named)


async def stores(ours: Places, seed: int, numbers: range, tell: Any) -> None:
    """Write forgeries into stores one after another."""
    folder = ours.new("sqlite", fresh=True).folder
    await Rotting("store", Forged(folder), folder, seed).play(numbers, tell)


def play(ours: Places, seed: int, parts: dict[str, range], tell: Any) -> None:
    """Play forgeries of both kinds."""
    with made_world(str(ours.new("sqlite", fresh=True).folder / "home")):
        if parts.get("words"):
            asyncio.run(words(seed, parts["words"], tell))
        if parts.get("store"):
            asyncio.run(stores(ours, seed, parts["store"], tell))


def series(n: int, seed: int, jobs: int) -> Tally:
    """Play all forgeries; what they came to."""
    tally = Tally(f"Forgeries, seed {seed}")
    half = n // 2
    with places(["sqlite"]) as all_places:

        def work(number: int, say: Say) -> None:
            mine = range(half * number // jobs, half * (number + 1) // jobs)
            play(all_places.of(number), seed, {"words": mine, "store": mine}, say)

        crew(jobs, work, tally, 2 * half)
    return tally


def again(seed: int, case: str) -> None:
    """Play one forgery again and tell it."""
    part, _, number = case.partition("/")

    def tell(name: str, met: dict[str, int], broken: list[str], trial: str) -> None:
        print(f"{name}: {met}", *broken, trial, sep="\n  ")

    with places(["sqlite"]) as all_places:
        play(all_places.of(0), seed, {part: range(int(number), int(number) + 1)}, tell)


def main(argv: list[str]) -> int:
    """Forge, print the table, and fail if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m trials.forge", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=1_000, metavar="N", help="forgeries (default %(default)s)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="default: another each time")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at once (default %(default)s)")
    parser.add_argument("--case", metavar="PART/N", help="play this one again and tell it")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the counts there too")
    args = parser.parse_args(argv)
    seed = random.randrange(1_000_000) if args.seed is None else args.seed
    if args.case:
        again(seed, args.case)
        return 0
    begun = time.monotonic()
    tally = series(args.n, seed, args.jobs)
    seconds = time.monotonic() - begun
    rate = f"{tally.tried / seconds:.0f} a second"
    print(tally.text(f"{tally.tried:,} forgeries in {seconds:.0f} s with {args.jobs} processes: {rate}."))
    if args.json:
        tally.save(args.json)
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
