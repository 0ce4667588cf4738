"""`python -m benchmarks`: the table of Keyturn, its peers and the floor."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .measuring import Measured, run
from .rows import ROWS, Row, chosen
from .subjects import SUBJECTS
from .table import report


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", metavar="A,B", help="only these: " + ", ".join(row.key for row in ROWS))
    parser.add_argument("--subjects", metavar="A,B", default=",".join(SUBJECTS), help="default: %(default)s")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="fresh processes a figure (default 5)")
    parser.add_argument("--all", action="store_true", help="the watched rows too")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write every sample there too")
    return parser.parse_args(argv)


def as_json(measured: Measured, rows: list[Row], subjects: list[str]) -> str:
    """Versions, medians and samples, by row and subject."""
    figures = {
        row.key: {
            subject: {"median": measured.median(subject, row), "samples": measured.values(subject, row)}
            for subject in subjects
            if measured.values(subject, row)
        }
        for row in rows
    }
    return json.dumps({"versions": measured.versions, "failures": measured.failures, "rows": figures}, indent=1)


def say(line: str) -> None:
    """Show where we are, to a person only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)


def main(argv: list[str]) -> int:
    """Measure, print, and fail only if a measurement failed: a missed target is shown, not enforced."""
    args = arguments(argv)
    rows = chosen(args.rows, args.all)
    subjects = [name.strip() for name in args.subjects.split(",")]
    if unknown := [name for name in subjects if name not in SUBJECTS]:
        raise SystemExit(f"no subject {', '.join(unknown)}; there are: {', '.join(SUBJECTS)}")
    measured = run(rows, subjects, args.repeat, say)
    say("")
    print(report(measured, rows, subjects, args.repeat))
    if args.json:
        args.json.write_text(as_json(measured, rows, subjects) + "\n")
    return 1 if measured.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
