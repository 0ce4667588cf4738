"""Run every trial at length, and write the counts into the manual: `make trials KILLS=10000 N=10000 SEEDS=100000`.

    python -m trials [--kills N] [--n N] [--seeds N] [--states N] [--count N] [--seed N] [--jobs N] [--only NAME]
                     [--into PAGE]

The tests marked `trial` and `sweep` come first. The table goes between two comments of docs/reliability.md, or of
another page; with `--only` it is printed and not written. Exit code 1 where a trial failed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .table import grid, put_between

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- written by `make trials` -->", "<!-- end of what `make trials` writes -->"

Counts = tuple[int, int]
Read = Callable[[str], Counts]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def of_table(text: str) -> Counts:
    """Read the row `all` of a table: how many were tried, and how many broke a promise."""
    cells = [cell.strip() for cell in re.findall(r"^\| all +\|(.*)\|$", text, re.MULTILINE)[-1].split("|")]
    return number(cells[0]), number(cells[-1])


def of_seeds(text: str) -> Counts:
    """Read the first two rows of a simulation."""
    found = dict(re.findall(r"^(seeds|violations) +([\d,]+)$", text, re.MULTILINE))
    return number(found["seeds"]), number(found["violations"])


def of_share(text: str) -> Counts:
    """Read `94 of 95 mutants caught`: what was not caught is a violation."""
    met, tried = re.findall(r"^([\d,]+) of ([\d,]+) ", text, re.MULTILINE)[-1]
    return number(tried), number(tried) - number(met)


def of_tests(text: str) -> Counts:
    """Read the last line of pytest."""
    found = {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|error)", text.splitlines()[-1])}
    wrong = found.get("failed", 0) + found.get("error", 0)
    return found.get("passed", 0) + wrong, wrong


@dataclass(frozen=True)
class Series:
    """A trial at length: its name and command in the manual, the module and its words, how its output is read."""

    name: str
    command: str
    words: list[str]
    read: Read


@dataclass(frozen=True)
class Counted:
    """What a series came to."""

    series: Series
    tried: int
    violations: int
    seconds: float


def listed(given: argparse.Namespace) -> list[Series]:
    """List every series with the counts that were asked for."""
    jobs, seed = ["--jobs", str(given.jobs)], ["--seed", str(given.seed)]
    n, said = ["--n", str(given.n)], f"SEED={given.seed}"
    tests = ["pytest", "-q", "-m", "trial or sweep", "--forks", str(given.jobs), "--timeout", "3600"]
    profile = ["--hypothesis-profile=sweep", f"--hypothesis-seed={given.seed}"]
    first = ["--from", str(given.seed * 1000)]
    return [
        Series("tests at length", f"make sweep COUNT={given.count} {said}", [*tests, *profile], of_tests),
        Series("kills and faults", f"make crash KILLS={given.kills} {said}",
               ["trials.crash", "--kills", str(given.kills), *seed, *jobs], of_table),
        Series("races", f"make race N={given.n} {said}", ["trials.race", *n, *seed, *jobs], of_table),
        Series("rot", f"make rot N={given.n} {said}", ["trials.rot", *n, *seed, *jobs], of_table),
        Series("forgeries", f"make forge N={given.n} {said}", ["trials.forge", *n, *seed, *jobs], of_table),
        Series("signatures", f"make signatures N={given.n} {said}", ["trials.signatures", *n, *seed], of_share),
        Series("altered exports", f"make audit-trial N={given.n} {said}", ["trials.audit", *n, *seed], of_table),
        Series("texts", "make texts", ["trials.texts"], of_table),
        Series("simulated worlds", f"make simulate SEEDS={given.seeds} FROM={given.seed * 1000}",
               ["trials.simulate", "--seeds", str(given.seeds), *first, *jobs], of_seeds),
        Series("states explored", f"make explore STATES={given.states} {said}",
               ["trials.explore", "--states", str(given.states), *seed, *jobs], of_table),
        Series("mutants of the worlds", "make explore ARGS=--mutants",
               ["trials.explore", "--mutants", *jobs], of_share),
        Series("mutants of the gate", "make mutants", ["trials.mutants"], of_share),
    ]  # fmt: skip


def run(series: Sequence[Series], count: int) -> Iterator[Counted]:
    """Run one series after another; each prints its own table."""
    environment = {**os.environ, "KEYTURN_SWEEP": str(count), "PYTHONUNBUFFERED": "1"}
    for each in series:
        print(f"\n{each.name}: {each.command}\n", flush=True)
        begun = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-m", *each.words], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            text = "".join(_echoed(process.stdout))
        yield _counted(each, text, process.returncode, time.monotonic() - begun)


def _echoed(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        print(line, end="", flush=True)
        yield line


def _counted(series: Series, text: str, code: int, seconds: float) -> Counted:
    try:
        tried, violations = series.read(text)
    except (IndexError, KeyError, ValueError):
        tried, violations = 0, 1
    return Counted(series, tried, max(violations, int(code != 0)), seconds)


def block(found: Sequence[Counted], when: str, commit: str, cores: int) -> str:
    """Write the part of the manual."""
    rows = [
        [
            each.series.name,
            f"{each.tried:,}",
            f"{each.violations:,}",
            f"{each.seconds:,.0f}",
            f"`{each.series.command}`",
        ]
        for each in found
    ]
    head = f"Of {when}, commit {commit}, by `make trials` on {cores} cores:"
    return f"{BEGIN}\n{head}\n\n{grid(['trial', 'tried', 'violations', 'seconds', 'again with'], rows)}\n{END}"


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def main(argv: Sequence[str] | None = None) -> int:
    """Run all of it; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trials", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1_000, help="of `crash` (default %(default)s)")
    parser.add_argument("--n", type=int, default=1_000, help="of races, rot, forgeries, signatures, exports")
    parser.add_argument("--seeds", type=int, default=1_000, help="of `simulate` (default %(default)s)")
    parser.add_argument("--states", type=int, default=100_000, help="of `explore`, in each world (default %(default)s)")
    parser.add_argument("--count", type=int, default=1_000, help="of each test marked sweep (default %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000), help="default: another each time")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (default %(default)s)")
    parser.add_argument("--only", metavar="NAME", help="only series whose name holds this; nothing is written")
    parser.add_argument("--into", type=Path, default=PAGE, metavar="PAGE", help="the page that has the two comments")
    given = parser.parse_args(argv)
    chosen = [each for each in listed(given) if given.only is None or given.only in each.name]
    found = list(run(chosen, given.count))
    text = block(found, f"{datetime.now(UTC):%Y-%m-%d}", _commit(), os.cpu_count() or 1)
    print("\n" + text)
    if given.only is None:
        put_between(given.into, BEGIN, END, text)
    return int(any(each.violations for each in found))


if __name__ == "__main__":
    sys.exit(main())
