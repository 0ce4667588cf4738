"""`python -m trials.explore`: every order of each small world, or each mutant with its shortest trace."""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from trials.table import grid

from .broken import SHOWN
from .casts import CASTS
from .series import caught, trace, walks
from .walk import Walked

_HEAD = ["world", "states", "transitions", "refused", "closed", "states/s", "violations"]
_BEGIN, _END = "<!-- explored -->\n", "<!-- -->"


def explore(args: argparse.Namespace) -> int:
    """Walk the worlds, one process each; print the table, and a trace for each promise that was broken."""
    names = [name for name in CASTS if args.only is None or args.only in name]
    found: list[Walked] = []
    for each in walks(names, args.states, args.depth, args.seed, args.jobs, args.asks):
        found.append(each)
        print(ended(each), file=sys.stderr, flush=True)
    table = grid(_HEAD, [row(each) for each in [*found, _sum(found)]])
    print(table)
    if args.into is not None:
        write(args.into, table)
    for each in found:
        if each.broke:
            print(f"\n{each.name}, of {CASTS[each.name]().what}:\n{trace(each)}")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    seconds = sum(each.seconds for each in found)
    print(f"\n{seconds:,.0f} s of processor time, {most:,} MB in the largest process.")
    return int(any(each.broke for each in found))


def row(each: Walked) -> list[str]:
    """Return a world's row of the table."""
    closed = f"at depth {each.depth}" if each.closed else "no"
    rate = f"{each.states / max(each.seconds, 0.001):,.0f}"
    counts = [f"{number:,}" for number in (each.states, each.transitions, each.refused)]
    return [each.name, *counts, closed, rate, str(len(each.broke.splitlines()))]


def ended(each: Walked) -> str:
    """Say how a walk ended."""
    how = f"closed at depth {each.depth}" if each.closed else f"cut after depth {each.depth}"
    return f"{each.name}: {how}, {each.states:,} states, {each.seconds:,.0f} s"


def write(path: Path, table: str) -> None:
    """Write the table into the page that publishes it, in place of the one that stands there."""
    before, begin, rest = path.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    path.write_text(f"{before}{begin}{table}\n{end}{after}")


def _sum(found: Sequence[Walked]) -> Walked:
    total = Walked(
        "all", closed=all(each.closed for each in found), broke="\n".join(each.broke for each in found if each.broke)
    )
    for each in found:
        total.states += each.states
        total.transitions += each.transitions
        total.refused += each.refused
        total.depth = max(total.depth, each.depth)
        total.seconds += each.seconds
    return total


def mutants(args: argparse.Namespace) -> int:
    """Print for each mutant the shortest trace that shows it."""
    chosen = [each for each in SHOWN if args.only is None or args.only in each.mutant.name]
    missed = 0
    for shown, walk in caught(chosen, args.states, args.jobs):
        print(f"{shown.mutant.name} ({shown.cast}, {walk.states:,} states)\n{trace(walk)}\n", flush=True)
        missed += not walk.broke
    print(f"{len(chosen) - missed} of {len(chosen)} mutants caught.")
    return int(bool(missed))


def main(argv: Sequence[str] | None = None) -> int:
    """Explore; the exit code is 1 where a promise was broken, or a mutant was not caught."""
    parser = argparse.ArgumentParser(prog="python -m trials.explore", description=__doc__)
    parser.add_argument("--states", type=int, default=100_000, help="how many in each world (default %(default)s)")
    parser.add_argument("--depth", type=int, default=99, help="how many acts one after another (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default %(default)s)")
    parser.add_argument("--seed", type=int, help="try the acts in another order")
    parser.add_argument("--only", metavar="NAME", help="only worlds, or mutants, whose name holds this")
    parser.add_argument("--asks", type=int, default=0, help="how many more times a call may be asked anew")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="write the table into a page of the manual")
    parser.add_argument("--mutants", action="store_true", help="break the core, law by law, and see it caught")
    args = parser.parse_args(argv)
    return mutants(args) if args.mutants else explore(args)


if __name__ == "__main__":
    sys.exit(main())
