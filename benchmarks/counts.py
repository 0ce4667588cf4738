"""`python -m benchmarks.counts`: counts of the standard shapes, which do not depend on the machine.

Each shape is done several times, and the least of each count stands: the first pass makes what is made once, and a pass
on a busy machine may renew a lease. `--where` says which functions are called, `--write` writes what the tests hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from keyturn.testing.postgres import Postgres, PostgresMissing, throwaway_postgres

from .counting import COUNTS, Counter, counting
from .shapes import SHAPES, Place, Shape
from .table import grid, number

PASSES = 3
HELD = Path(__file__).with_name("counts.json")
Counts = dict[str, float]


async def counted(shape: Shape, place: Place, counter: Counter) -> Counts:
    """Count some passes of a shape; the least of each count."""
    passes: list[dict[str, int]] = []
    for _ in range(PASSES):
        counter.begin()
        work = shape.work(place)
        await anext(work)
        counter.open = True
        await anext(work)
        counter.open = False
        passes.append(counter.counts)
        async for _ in work:
            raise AssertionError(f"{shape.key} goes on after its end")
    return {what: round(min(counts[what] for counts in passes) / shape.many, 2) for what in COUNTS}


def count_shapes(shapes: Iterable[Shape]) -> dict[str, Counts]:
    """Count these shapes, each in an event loop of its own; what this revision or machine does not have is left out."""
    found: dict[str, Counts] = {}
    with ExitStack() as stack:
        place = Place(Path(stack.enter_context(tempfile.TemporaryDirectory())), _databases(stack))
        counter = stack.enter_context(counting())
        for shape in shapes:
            try:
                found[shape.key] = asyncio.run(counted(shape, place, counter))
            except (ImportError, AttributeError, TypeError, PostgresMissing) as error:
                print(f"{shape.key} is not counted: {error}", file=sys.stderr)
    return found


def _databases(stack: ExitStack) -> Callable[[], str]:
    """Start a server of PostgreSQL at the first database that is wanted."""
    servers: list[Postgres] = []

    def database() -> str:
        if not servers:
            servers.append(stack.enter_context(throwaway_postgres()))
        return servers[0].database()

    return database


def table(found: dict[str, Counts]) -> str:
    """Lay the counts out for a person."""
    rows = [
        [shape.title, *(number(found[shape.key][what]) for what in COUNTS)] for shape in SHAPES if shape.key in found
    ]
    return grid(["counts", *COUNTS], rows)


def where(shape: Shape) -> str:
    """Say which functions one pass of a shape calls, those first that are called most."""
    with ExitStack() as stack:
        place = Place(Path(stack.enter_context(tempfile.TemporaryDirectory())), _databases(stack))
        counter = stack.enter_context(counting())
        asyncio.run(counted(shape, place, counter))
        called = counter.called.most_common(60)
    return "\n".join(f"{many / shape.many:8.1f}  {name}" for name, many in called)


def main(argv: list[str]) -> int:
    """Count, and print or keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counts", description=__doc__)
    parser.add_argument("--shapes", metavar="A,B", help="only these: " + ", ".join(shape.key for shape in SHAPES))
    parser.add_argument("--json", action="store_true", help="print them for a program")
    parser.add_argument("--where", metavar="SHAPE", help="which functions a pass calls, and how often")
    parser.add_argument("--write", action="store_true", help=f"write {HELD.name}, which the tests hold")
    args = parser.parse_args(argv)
    if args.where:
        print(where(next(shape for shape in SHAPES if shape.key == args.where)))
        return 0
    wanted = args.shapes.split(",") if args.shapes else [shape.key for shape in SHAPES]
    found = count_shapes(shape for shape in SHAPES if shape.key in wanted)
    if args.write:
        HELD.write_text(json.dumps(found, indent=1) + "\n", encoding="ascii")
    print(json.dumps(found) if args.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
