"""The arithmetic of larger fleets: what so many waiting runs need, from what one run was measured to need.

    python -m trials.fleet_plan [--into PAGE]

The constants are those that `make load` prints; a plan multiplies them, and a simulation of the sharded layout
(`trials/sharded.py`) has to come to the same numbers.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from .table import grid, put_between

BEGIN, END = "<!-- written by `python -m trials.fleet_plan` -->", "<!-- end of what it writes -->"
DAY = 86_400


@dataclass(frozen=True)
class Constants:
    """What was measured: bytes of a waiting run, bytes and milliseconds of a cycle (start, ask, approve, tool, end)."""

    waiting_bytes: int
    finished_bytes: int
    wal_bytes: int
    postgres_ms: float
    worker_ms: float
    desk_ms: float


#: By `make load` on two shared cores, November 2026: docs/load.md.
MEASURED = Constants(
    waiting_bytes=4_383, finished_bytes=7_345, wal_bytes=13_587, postgres_ms=12.1, worker_ms=19.0, desk_ms=14.0,
)  # fmt: skip


@dataclass(frozen=True)
class Assumptions:
    """What users do: for how long a run waits, for how long a model works for a cycle, and what Monday is like."""

    wait_days: float = 3.0
    model_seconds: float = 20.0
    monday_share: float = 0.1
    monday_seconds: float = 600.0
    kept_days: int = 90
    slots: int = 100
    lease_seconds: float = 60.0


@dataclass(frozen=True)
class Need:
    """What so many waiting runs need."""

    waiting: int
    rate: float
    peak: float
    postgres_cores: float
    worker_cores: float
    desk_cores: float
    peak_postgres_cores: float
    bytes_waiting: float
    bytes_kept: float
    wal_a_second: float
    in_motion: float
    workers: int
    peak_workers: int
    renewals: float


def need(waiting: int, of: Constants, given: Assumptions) -> Need:
    """Multiply."""
    rate = waiting / (given.wait_days * DAY)
    peak = waiting * given.monday_share / given.monday_seconds
    moving = rate * given.model_seconds
    return Need(
        waiting=waiting,
        rate=rate,
        peak=peak,
        postgres_cores=rate * of.postgres_ms / 1_000,
        worker_cores=rate * of.worker_ms / 1_000,
        desk_cores=rate * of.desk_ms / 1_000,
        peak_postgres_cores=peak * of.postgres_ms / 1_000,
        bytes_waiting=waiting * of.waiting_bytes,
        bytes_kept=rate * DAY * given.kept_days * of.finished_bytes,
        wal_a_second=rate * of.wal_bytes,
        in_motion=moving,
        workers=max(-(-int(moving) // given.slots), 1),
        peak_workers=max(-(-int(peak * given.model_seconds) // given.slots), 1),
        renewals=3 * moving / given.lease_seconds,
    )


def table(needs: list[Need]) -> str:
    """Say what is needed, a column for each number of waiting runs."""
    rows = [
        ("cycles/s, mean", [f"{each.rate:,.1f}" for each in needs]),
        ("cycles/s on Monday at 9:00", [f"{each.peak:,.0f}" for each in needs]),
        ("PostgreSQL, cores, mean", [f"{each.postgres_cores:,.2f}" for each in needs]),
        ("PostgreSQL, cores on Monday", [f"{each.peak_postgres_cores:,.1f}" for each in needs]),
        ("workers, cores, mean", [f"{each.worker_cores:,.2f}" for each in needs]),
        ("servers and clients, cores, mean", [f"{each.desk_cores:,.2f}" for each in needs]),
        ("WAL", [f"{_bytes(each.wal_a_second)}/s" for each in needs]),
        ("waiting runs on the disk", [_bytes(each.bytes_waiting) for each in needs]),
        ("finished runs on the disk, kept 90 days", [_bytes(each.bytes_kept) for each in needs]),
        ("runs in motion", [f"{each.in_motion:,.0f}" for each in needs]),
        ("workers of 100 slots, mean", [f"{each.workers:,}" for each in needs]),
        ("workers of 100 slots on Monday", [f"{each.peak_workers:,}" for each in needs]),
        ("lease renewals/s", [f"{each.renewals:,.0f}" for each in needs]),
    ]
    return grid(["", *(f"{each.waiting:,} waiting" for each in needs)], [[name, *cells] for name, cells in rows])


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1_000:
            return f"{number:.3g} {unit}"
        number /= 1_000
    return f"{number:,.1f} TB"


def main() -> int:
    """Print or write the table."""
    parser = argparse.ArgumentParser(prog="python -m trials.fleet_plan", description=__doc__)
    parser.add_argument("--into", type=Path, metavar="PAGE", help="write the table into this page of the manual")
    asked = parser.parse_args()
    text = planned()
    print(text)
    if asked.into is not None:
        put_between(asked.into, BEGIN, END, text)
    return 0


def planned() -> str:
    """Return what stands in the manual: the constants, and what two fleets need."""
    of, given = MEASURED, Assumptions()
    said = (
        f"A waiting run has {of.waiting_bytes:,} bytes on the disk, a finished one {of.finished_bytes:,}. A cycle "
        f"writes {of.wal_bytes:,} bytes of WAL, and uses {of.postgres_ms:g} ms of a processor in PostgreSQL, "
        f"{of.worker_ms:g} ms in workers and {of.desk_ms:g} ms where it is started and decided."
    )
    rows = table([need(waiting, of, given) for waiting in (1_000_000, 100_000_000)])
    return f"{BEGIN}\n{said}\n\n{rows}\n{END}"


if __name__ == "__main__":
    sys.exit(main())
