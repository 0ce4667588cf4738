"""Mutants of the gate: builds broken on purpose, each put through the battery until something catches it.

    python -m trials.mutants [--whole] [--few] [--only NAME] [--seeds COUNT]

Exit code 1 if one survives, if the build as it is fails, or if a mutant no longer fits the source. `--whole` puts
each through all of the battery and says by how many trials it is caught; `--seeds` lets the simulator try it as well,
which has to find by chance what the battery was written for.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trials import simulate
from trials.alteration import Mutant, Stale
from trials.battery import BATTERY
from trials.battery_deciders import DECIDERS
from trials.battery_people import PEOPLE
from trials.bench import tried
from trials.broken import BROKEN
from trials.broken_people import OF_PEOPLE
from trials.forks import Child, Ended
from trials.table import grid

MUTANTS = [*BROKEN, *OF_PEOPLE]
SECONDS = 300.0
AT_ONCE = 2


@dataclass
class Found:
    """What caught a build: each trial that did, and who in it; how many trials there were."""

    caught: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    tried: int = 0
    first: int = 0
    broke: str = ""
    simulated: str = ""


def few() -> list[Mutant]:
    """Return the first mutant of each law: the short version."""
    first: dict[str, Mutant] = {}
    for each in MUTANTS:
        first.setdefault(each.law.split()[0], each)
    return list(first.values())


def put_through(mutant: Mutant | None, *, whole: bool) -> Found:
    """Break this process, and try the battery in it."""
    if mutant is not None:
        try:
            mutant.apply()
        except Stale as stale:
            return Found(broke=str(stale))
    found = Found()
    for trial in [*BATTERY, *DECIDERS, *PEOPLE]:
        found.tried += 1
        who = asyncio.run(tried(trial))
        if who:
            found.caught.append((trial.__name__.replace("_", " "), who))
            found.first = found.first or found.tried
            if not whole:
                break
    return found


def simulated(name: str, seeds: int) -> str:
    """Whether so many runs of the simulator find something in a build."""
    command = [sys.executable, "-m", "trials.mutants", "--inside", name, "--seeds", str(seeds)]
    try:
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "never ended"
    return "caught" if done.returncode else "not in these"


def in_their_own_processes(mutants: Sequence[Mutant | None], *, whole: bool) -> Iterator[Found]:
    """The same, each in a process of its own, two at a time: there is no way back from a mutant."""
    at_work: deque[Child] = deque()
    for mutant in mutants:
        at_work.append(Child(partial(_told, mutant, whole=whole or mutant is None)))
        if len(at_work) == AT_ONCE:
            yield _heard(at_work.popleft().wait(SECONDS))
    while at_work:
        yield _heard(at_work.popleft().wait(SECONDS))


def _told(mutant: Mutant | None, *, whole: bool) -> dict[str, Any]:
    return vars(put_through(mutant, whole=whole))


def _heard(ended: Ended) -> Found:
    if ended.said is None:
        return Found(broke=f"ended by signal {ended.signal}")
    said: dict[str, Any] = ended.said
    if "tried" not in said:
        return Found(broke=str(said)[-300:])
    return Found(**{**said, "caught": [(name, who) for name, who in said["caught"]]})


def row(name: str, law: str, found: Found) -> list[str]:
    """One line of the table."""
    if found.broke:
        return [name, law, found.broke, "-", "-", "-"]
    by, first = "nobody", "-"
    if found.caught:
        by, first = f"{found.caught[0][0]} ({found.caught[0][1]})", str(found.first)
    return [name, law, by, first, f"{len(found.caught)} of {found.tried}", found.simulated or "-"]


def main(argv: Sequence[str] | None = None) -> int:
    """Put all mutants through the battery; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trials.mutants", description=__doc__)
    parser.add_argument("--whole", action="store_true", help="put each through the whole battery")
    parser.add_argument("--only", metavar="NAME", help="only mutants whose name holds this")
    parser.add_argument("--few", action="store_true", help="only the first mutant of each law")
    parser.add_argument("--seeds", type=int, default=0, metavar="COUNT", help="simulate each, so many seeds")
    parser.add_argument("--inside", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.inside is not None:
        return _inside(given.inside, given.seeds)
    chosen = [mutant for mutant in (few() if given.few else MUTANTS) if given.only is None or given.only in mutant.name]
    right, *found = in_their_own_processes([None, *chosen], whole=given.whole)
    for name, each in (
        zip(["", *(mutant.name for mutant in chosen)], [right, *found], strict=True) if given.seeds else ()
    ):
        each.simulated = simulated(name, given.seeds)
    sound = not right.caught and not right.broke and right.simulated != "caught"
    survived = sum(bool(each.broke) or not each.caught for each in found)
    rows = [row("(none)", "the build as it is: nobody may catch it", right)]
    rows += [row(mutant.name, mutant.law, each) for mutant, each in zip(chosen, found, strict=True)]
    print(grid(["mutant", "law", "caught by", "after trials", "caught in", "simulator"], rows))
    caught = len(rows) - 1 - survived
    print(f"\n{caught} of {len(rows) - 1} mutants caught; the build as it is {'passes' if sound else 'FAILS'}.")
    return 0 if sound and not survived else 1


def _inside(name: str, seeds: int) -> int:
    """Simulate in this process, which is broken first."""
    for mutant in MUTANTS:
        if mutant.name == name:
            mutant.apply()
    return simulate.main(["--seeds", str(seeds), "--jobs", "1"])


if __name__ == "__main__":
    sys.exit(main())
