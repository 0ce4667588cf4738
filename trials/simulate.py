"""`python -m trials.simulate`: the real core and engine in a made world, seed by seed, and a table of what happened.

A seed decides all: the agents, the weather, who dies when, what people do. `--seed N` plays one again and tells its
tale. A violation is shrunk (less of everything, as long as it stays) and told, with the command that shows it again.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from typing import Any

from .simulation.knobs import Knobs
from .simulation.made import made_world
from .simulation.stage import Outcome, simulate

BATCH = 250
SMALLER: dict[str, tuple[Any, ...]] = {
    "crowd": (False,), "stalls": (False,), "skew": (False,), "changes": (False,), "deaths": (False,),
    "faults": (False,), "misbehaviour": (False,), "streams": (False,), "guardrails": (False,),
    "policies": (False,), "meddling": (False,), "restores": (False,),
    "roles": (False,), "limits": (False,), "telling": (False,), "talks": (False,),
    "forks": (False,), "poison": (False,), "reviews": (False,), "queues": (False,), "late": (False,),
    "patience": (False,), "callers": (False,),
    "chains": (False,),
    "runs": (1,), "processes": (1, 2), "depth": (0, 1), "calls": (1, 2),
}  # fmt: skip

Batch = tuple[Counter[str], list[tuple[int, list[str]]]]


def play(seeds: Iterable[int]) -> Batch:
    """Play seeds one after another: what was counted, and which broke a promise."""
    counts, broken = Counter[str](), list[tuple[int, list[str]]]()
    gc.set_threshold(50_000, 20, 50)  # a seed leaves its whole world behind; to look for it now and then is enough
    with made_world():
        for seed in seeds:
            outcome = simulate(seed)
            counts += outcome.counts
            counts["seeds"] += 1
            if outcome.violations:
                broken.append((seed, outcome.violations))
    return counts, broken


def played(first: int, count: int, jobs: int) -> Iterator[Batch]:
    """The same on several processes; batches as they come."""
    batches = [range(start, min(start + BATCH, first + count)) for start in range(first, first + count, BATCH)]
    if jobs == 1:
        yield from map(play, batches)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(play, batches)


def shrunk(seed: int) -> Knobs:
    """The smallest knobs with which a seed still breaks a promise, tried one by one."""
    knobs = Knobs()
    with made_world():
        for name, values in SMALLER.items():
            tries = (replace(knobs, **{name: value}) for value in values)
            knobs = next((tried for tried in tries if simulate(seed, tried).violations), knobs)
    return knobs


def told(seed: int, knobs: Knobs) -> Outcome:
    """One seed with its tale."""
    with made_world():
        return simulate(seed, knobs, told=True)


def table(counts: Counter[str], broken: int, seconds: float) -> str:
    """What happened, by kind."""
    rows = [("seeds", counts["seeds"]), ("violations", broken), ("real seconds", round(seconds))]
    rows += [("made hours", counts["seconds"] // 3600)]
    rows += [(name, counts[name]) for name in ("runs", "replies", "calls", "effects", "drives", "deaths")]
    first = {name for name, _ in rows} | {"seconds"}
    rows += [(name, counts[name]) for name in sorted(counts) if name not in first]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {count:>13,}" for name, count in rows)


def show(seed: int, knobs: Knobs, tale: bool) -> None:
    """What one seed broke, with which knobs, and its tale."""
    outcome = told(seed, knobs)
    if tale:
        print("\n".join(outcome.tale))
    for violation in outcome.violations:
        print(f"seed {seed}: {violation}")


def words(knobs: Knobs) -> str:
    """Knobs as the command line takes them."""
    plain = Knobs()
    changed = [field.name for field in fields(Knobs) if getattr(knobs, field.name) != getattr(plain, field.name)]
    return "".join(f" --knob {name}={int(getattr(knobs, name))}" for name in changed)


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m trials.simulate", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--seeds", type=int, default=1_000, metavar="COUNT", help="how many (default %(default)s)")
    parser.add_argument("--from", type=int, default=0, metavar="N", dest="first", help="the first of them")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default %(default)s)")
    parser.add_argument("--seed", type=int, metavar="N", help="play this one again and tell its tale")
    parser.add_argument("--knob", action="append", default=[], metavar="NAME=NUMBER", help="less of something")
    return parser.parse_args(argv)


def knobs_of(given: list[str]) -> Knobs:
    """Knobs as the command line gave them."""
    kinds: dict[str, Callable[[int], Any]] = {field.name: type(getattr(Knobs(), field.name)) for field in fields(Knobs)}
    pairs = [text.partition("=") for text in given]
    if unknown := [name for name, _, _ in pairs if name not in kinds]:
        raise SystemExit(f"no knob {', '.join(unknown)}; there are: {', '.join(kinds)}")
    return Knobs(**{name: kinds[name](int(value)) for name, _, value in pairs})


def main(argv: list[str]) -> int:
    """Play, print, and fail if a promise was not kept."""
    args = arguments(argv)
    if args.seed is not None:
        show(args.seed, knobs_of(args.knob), tale=True)
        return 0
    logging.getLogger("keyturn").setLevel(logging.CRITICAL)  # that something fails is what this is about
    begun, counts, broken = time.monotonic(), Counter[str](), list[tuple[int, list[str]]]()
    for batch, found in played(args.first, args.seeds, args.jobs):
        counts += batch
        broken += found
        for seed, violations in found:
            print(f"seed {seed}: {violations[0]}", flush=True)
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{counts['seeds']:,} seeds", end="", file=sys.stderr, flush=True)
    for seed, _ in broken[:3]:
        knobs = shrunk(seed)
        print(f"\n---- seed {seed}, shrunk: python -m trials.simulate --seed {seed}{words(knobs)}")
        show(seed, knobs, tale=True)
    print("\n" + table(counts, len(broken), time.monotonic() - begun))
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
