"""grep beside the programs of that name: `python -m benchmarks.grep`.

A tree of many small files is made in a temporary directory, and the same is looked for in it by a workspace, by
`grep -rn` and, where it is installed, by ripgrep. A figure counts only if all found the same number of lines.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from keyturn import Workspace
from keyturn.tools.filesystem.search import SearchQuery


class Case(NamedTuple):
    """What to look for, and whether it is a regular expression."""

    name: str
    pattern: str
    regex: bool = True


CASES = (
    Case("a text in 50 files", "NEEDLE_in_it", False),
    Case("a text that is nowhere", "nowhere_to_be_found", False),
    Case("a regular expression", r"NEEDLE_[a-z]+_it to"),
    Case("one of two texts", "NEEDLE_in|nowhere_to"),
    Case("no plain text in it", "[A-Z][A-Z]+[a-z0-9]*[!?]"),
)


def make_tree(root: Path, files: int, megabytes: int) -> None:
    """Files of words in 400 directories; every 400th file has the needle."""
    chance = random.Random(1)
    words = [f"word{number}" for number in range(3000)]
    block = [" ".join(chance.choices(words, k=9)) + "\n" for _ in range(2000)]
    lines_each = max(1, (megabytes << 20) // files // 74)
    for number in range(files):
        place = root / f"dir{number % 20}" / f"sub{number // 20 % 20}"
        if number < 400:
            place.mkdir(parents=True, exist_ok=True)
        start = chance.randrange(len(block))
        count = chance.randint(lines_each // 2, lines_each * 3 // 2)
        lines = [block[(start + line) % len(block)] for line in range(count)]
        if number % 400 == 0:
            lines.insert(count // 2, "here is the NEEDLE_in_it to find\n")
        (place / f"file{number}.py").write_text("".join(lines))
    (root / ".gitignore").write_text("*.log\n/build/\n__pycache__/\n")


def searchers(root: Path) -> dict[str, Callable[[Case], int]]:
    """Who can look, by name; each says how many lines it found."""
    files = Workspace(root)

    def keyturn(case: Case) -> int:
        found = files.search(".", SearchQuery(case.pattern, most=10**7, seconds=120))
        assert not found.stopped, found.stopped
        return len(found.lines)

    def program(*command: str) -> Callable[[Case], int]:
        def run(case: Case) -> int:
            kind = [] if case.regex and command[0] == "rg" else ["-E" if case.regex else "-F"]
            done = subprocess.run([*command, *kind, case.pattern, str(root)], capture_output=True, check=False)
            return done.stdout.count(b"\n")

        return run

    known = {"keyturn": keyturn, "grep -rn": program("grep", "-rn")}
    return {**known, "rg -n": program("rg", "-n", "--no-heading", "--sort", "path")} if shutil.which("rg") else known


def main(argv: list[str]) -> int:
    """Make the tree, look, print how long each took and how that compares."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grep", description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=5, help="the fastest of so many counts (default 5)")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as place:
        make_tree(Path(place), args.files, args.megabytes)
        known = searchers(Path(place))
        print(f"{'':24}" + "".join(f"{name:>24}" for name in known))
        for case in CASES:
            best, counts = dict.fromkeys(known, float("inf")), set[int]()
            for name in [*known] * args.repeat:
                start = time.perf_counter()
                counts.add(known[name](case))
                best[name] = min(best[name], time.perf_counter() - start)
            if len(counts) != 1:
                raise SystemExit(f"{case.name}: they found different numbers of lines: {sorted(counts)}")
            cells = (f"{spent * 1000:.0f} ms (x{best['keyturn'] / spent:.1f})" for spent in best.values())
            print(f"{case.name:24}" + "".join(f"{cell:>24}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
