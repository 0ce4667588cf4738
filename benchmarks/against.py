"""`python -m benchmarks.against REV`: this tree beside another commit, in turn, on processor time and on counts.

Both are measured by the benchmarks of this tree, in fresh processes that import the one source or the other: A B A B.
Of each row the least of all samples stands, since what others do on the machine only adds to it. What the other commit
did not have is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from .counting import COUNTS
from .counts import Counts
from .rows import ROWS, Row
from .sampling import CLOCK
from .shapes import SHAPES
from .table import grid, number, ratio

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "decisions" / "0024-pace.md"
MARK = "<!-- written by make bench-against -->"
TIMED = "import,turns-20,turns-200,turns-1000,cycle,rounds-200,save,load,held-50,paused-500,deltas,durable,durable-mb"
TIMEOUT_SECONDS = 400.0


def source_of(rev: str) -> tuple[str, Path]:
    """Unpack the source of a commit below `build`; return the commit and where it is."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.check_output([*git, "rev-parse", "--short=8", f"{rev}^{{commit}}"], text=True).strip()
    place = ROOT / "build" / "against" / commit
    if not (place / "src").exists():
        place.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run([*git, "archive", commit, "src"], check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", str(place)], input=archive, check=True)
    return commit, place / "src"


def run(source: Path, *command: str) -> str | None:
    """Run one module of the benchmarks with that source; nothing if it fails, and the reason on standard error."""
    env = {**os.environ, "PYTHONPATH": str(source), CLOCK: "process_time"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    if done.returncode:
        print(f"{' '.join(command)} of {source}: {(done.stderr.splitlines() or [''])[-1]}", file=sys.stderr)
        return None
    return done.stdout.splitlines()[-1]


def least(rows: list[Row], sources: list[Path], repeat: int) -> list[dict[str, float]]:
    """The least figure of each row, for each source."""
    jobs = {(row.workload, tuple(f"{name}={value}" for name, value in row.params.items())) for row in rows}
    found: list[dict[tuple[object, str], float]] = [{} for _ in sources]
    for _ in range(repeat):
        for job in sorted(jobs):
            for source, best in zip(sources, found, strict=True):
                figures = json.loads(run(source, "benchmarks.one", "keyturn", job[0], *job[1]) or "{}")
                for name, value in figures.items():
                    best[job, name] = min(value, best.get((job, name), value))
    keys = {row.key: ((row.workload, tuple(f"{k}={v}" for k, v in row.params.items())), row.figure) for row in rows}
    return [{key: best[place] for key, place in keys.items() if place in best} for best in found]


def times(rows: list[Row], then: dict[str, float], now: dict[str, float]) -> str:
    """The table of processor time."""
    lines = [
        [row.title, number(then[row.key]), number(now[row.key]), ratio(now[row.key], then[row.key])]
        for row in rows
        if row.key in then and row.key in now
    ]
    return grid(["processor time, least of all", "then", "now", "times then"], lines)


def counts(then: dict[str, Counts], now: dict[str, Counts]) -> str:
    """The table of counts: what is now, and Python calls beside those of then."""
    lines = [
        [
            shape.title,
            *(number(now[shape.key][what]) for what in COUNTS),
            number(then[shape.key]["calls"]) if shape.key in then else "-",
            ratio(now[shape.key]["calls"], then.get(shape.key, {}).get("calls")),
        ]
        for shape in SHAPES
        if shape.key in now
    ]
    return grid(["counts", *COUNTS, "calls then", "times then"], lines)


def main(argv: list[str]) -> int:
    """Measure both, print the tables, and put them into the page if that is wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("rev", help="the commit to measure beside")
    parser.add_argument("--rows", metavar="A,B", default=TIMED, help="default: %(default)s")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="times that each is measured (default 5)")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.relative_to(ROOT)}")
    args = parser.parse_args(argv)
    rows = [row for row in ROWS if row.key in args.rows.split(",")]
    commit, source = source_of(args.rev)
    sources = [source, ROOT / "src"]
    counted = [json.loads(run(each, "benchmarks.counts", "--json") or "{}") for each in sources]
    tables = [counts(*counted)]
    if rows:
        tables.append(times(rows, *least(rows, sources, args.repeat)))
    head = subprocess.check_output(["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"], text=True).strip()
    text = "\n\n".join([f"{head} (now) beside {commit} (then).", *tables])
    print(text)
    if args.write:
        before, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
        PAGE.write_text(f"{before}{mark or MARK}\n\n{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
