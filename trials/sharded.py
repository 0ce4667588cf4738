"""A simulation of a fleet over several PostgreSQL databases: the layout of docs/load.md, played second by second.

    python -m trials.sharded [--waiting 100000000] [--shards 16] [--workers 10000] [--seed 7]

Tenants have a home shard in a directory, with an epoch that grows when they move; a tenant that is larger than a shard
may carry is spread by the hash of the run. A worker serves the one shard that it and the shard's name hash highest to.
Decisions come as on a Monday at nine. A shard gives each second what its cores and its workers' slots allow; the rest
waits. The constants are those that `make load` measured (`trials/fleet_plan.py`), and the test compares the two.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .fleet_plan import MEASURED, Assumptions, Constants, need
from .table import grid

#: A tenant with a larger share of all runs is spread over the shards.
SPREAD_OVER = 0.02
#: For how many seconds a process believes what it read of the directory.
BELIEVED = 60
_SAMPLED = 100  # so many decisions of a second look their tenant up
_MOVES = 30  # every so many seconds a tenant is moved to another shard


def weight(*names: object) -> int:
    """Hash names to a number; the highest of several wins (rendezvous hashing)."""
    return int.from_bytes(hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=8).digest())


def bound(worker: object, shards: Sequence[int]) -> int:
    """Return the shard that a worker serves."""
    return max(shards, key=lambda shard: weight(worker, shard))


class Directory:
    """Says where a tenant is, and since which epoch; a tenant that was moved is refused at its old shard."""

    def __init__(self, homes: dict[int, int]) -> None:
        self._homes = {tenant: (shard, 1) for tenant, shard in homes.items()}

    def home(self, tenant: int) -> tuple[int, int]:
        """Return the shard and the epoch of a tenant."""
        return self._homes[tenant]

    def move(self, tenant: int, shard: int) -> None:
        """Move a tenant."""
        self._homes[tenant] = (shard, self._homes[tenant][1] + 1)


@dataclass
class Reader:
    """A process that asks the directory, and believes for a while what it read."""

    directory: Directory
    asked: int = 0
    refused: int = 0
    _known: dict[int, tuple[int, tuple[int, int]]] = field(default_factory=dict[int, tuple[int, tuple[int, int]]])

    def shard(self, tenant: int, now: int) -> int:
        """Return where to write for a tenant: a shard that refuses an old epoch has the directory read again."""
        at, found = self._known.get(tenant, (-BELIEVED, (0, 0)))
        if now - at >= BELIEVED:
            found = self._ask(tenant, now)
        if found[1] != self.directory.home(tenant)[1]:  # the old shard says that the tenant was moved
            self.refused += 1
            found = self._ask(tenant, now)
        return found[0]

    def _ask(self, tenant: int, now: int) -> tuple[int, int]:
        self.asked += 1
        self._known[tenant] = (now, self.directory.home(tenant))
        return self._known[tenant][1]


@dataclass
class Shard:
    """One database with its workers: how much it carries, what waits, and what it came to."""

    number: int
    workers: int = 0
    share: float = 0.0
    backlog: float = 0.0
    given: int = 0
    served: float = 0.0
    busiest: float = 0.0
    longest: float = 0.0

    def second(self, arrived: int, carried: float) -> None:
        """Take what arrived in a second, and serve what can be carried; the rest waits."""
        self.given += arrived
        self.backlog += arrived
        done = min(self.backlog, carried)
        self.backlog -= done
        self.served += done
        self.busiest = max(self.busiest, done)
        if carried:
            self.longest = max(self.longest, self.backlog / carried)


@dataclass(frozen=True)
class Layout:
    """How the fleet is laid out."""

    waiting: int = 100_000_000
    shards: int = 16
    workers: int = 10_000
    tenants: int = 10_000
    #: Processors of a shard's database that cycles may use.
    cores: float = 8.0
    #: For how many seconds the busiest shard is away in the middle of the peak: its standby is promoted.
    failover: int = 10


@dataclass(frozen=True)
class Played:
    """What a Monday came to."""

    layout: Layout
    shards: list[Shard]
    seconds: int
    postgres_cores: float
    #: The process that sampled decisions went through.
    reader: Reader

    def table(self) -> str:
        """Say what the least and the most loaded shard had to carry."""
        ordered = sorted(self.shards, key=lambda shard: shard.given)
        rows = [["least", *self._cells(ordered[0])], ["most", *self._cells(ordered[-1])]]
        head = ["shard", "workers", "share of all", "decisions", "most cycles/s", "cores then", "longest wait, s"]
        return grid(head, rows)

    def summary(self) -> str:
        """Say when all was done, and what the directory cost."""
        asked, refused = self.reader.asked, self.reader.refused
        return (
            f"All decisions were executed {self.seconds:,} s after the first. A process of {_SAMPLED} decisions "
            f"a second asked the directory {asked:,} times where their tenants are, and was sent on {refused:,} times."
        )

    def _cells(self, shard: Shard) -> list[str]:
        cores = shard.busiest * self.postgres_cores
        counts = [f"{shard.workers:,}", f"{shard.share:.1%}", f"{shard.given:,}"]
        return [*counts, f"{shard.busiest:,.0f}", f"{cores:.1f}", f"{shard.longest:.1f}"]


def tenants(count: int, shards: int) -> tuple[dict[int, float], Directory]:
    """Make tenants of very different sizes (the n-th has 1/n of the first), each with a home shard."""
    whole = sum(1 / (number + 1) for number in range(count))
    sizes = {number: 1 / (number + 1) / whole for number in range(count)}
    return sizes, Directory({number: bound(f"tenant {number}", range(shards)) for number in sizes})


def shares(sizes: dict[int, float], directory: Directory, shards: int) -> list[float]:
    """Return which part of all runs each shard has: a huge tenant is spread over all of them."""
    found = [0.0] * shards
    for tenant, size in sizes.items():
        if size > SPREAD_OVER:
            found = [each + size / shards for each in found]
        else:
            found[directory.home(tenant)[0]] += size
    return found


def played(layout: Layout, of: Constants, given: Assumptions, seed: int) -> Played:
    """Play a Monday: what was decided comes over some minutes, and one shard fails over meanwhile."""
    draw = random.Random(seed)
    sizes, directory = tenants(layout.tenants, layout.shards)
    part = shares(sizes, directory, layout.shards)
    serving = Counter(bound(f"worker {number}", range(layout.shards)) for number in range(layout.workers))
    made = [Shard(number, serving[number], part[number]) for number in range(layout.shards)]
    wanted = need(layout.waiting, of, given)
    busiest, peak = max(made, key=lambda shard: shard.share), int(given.monday_seconds)
    away = range(peak // 2, peak // 2 + layout.failover)
    reader, now = Reader(directory), 0
    while now < peak or any(shard.backlog > 0.5 for shard in made):
        if now < peak:
            _looked_up(reader, sizes, draw, layout.shards, now)
        for shard in made:
            rate = wanted.peak * shard.share if now < peak else 0.0
            arrived = max(round(draw.gauss(rate, rate**0.5)), 0)
            shard.second(arrived, 0.0 if shard is busiest and now in away else _carried(shard, layout, of, given))
        now += 1
        if now > 10 * peak:
            raise RuntimeError("a shard carries less than arrives: add shards, cores or workers")
    return Played(layout, made, now, of.postgres_ms / 1_000, reader)


def _looked_up(reader: Reader, sizes: dict[int, float], draw: random.Random, shards: int, now: int) -> None:
    """Let some decisions find their shard, while tenants are moved now and then."""
    if now % _MOVES == 0:
        [moved] = draw.choices(list(sizes), list(sizes.values()))
        reader.directory.move(moved, draw.randrange(shards))
    for tenant in draw.choices(list(sizes), list(sizes.values()), k=_SAMPLED):
        if reader.shard(tenant, now) != reader.directory.home(tenant)[0]:
            raise AssertionError(f"a decision of tenant {tenant} was sent to a shard that it left")


def _carried(shard: Shard, layout: Layout, of: Constants, given: Assumptions) -> float:
    """Return how many cycles a shard carries in a second: its cores, or the slots of its workers."""
    return min(layout.cores * 1_000 / of.postgres_ms, shard.workers * given.slots / given.model_seconds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trials.sharded", description=__doc__)
    parser.add_argument("--waiting", type=int, default=Layout.waiting)
    parser.add_argument("--shards", type=int, default=Layout.shards)
    parser.add_argument("--workers", type=int, default=Layout.workers)
    parser.add_argument("--cores", type=float, default=Layout.cores)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    layout = Layout(asked.waiting, asked.shards, asked.workers, cores=asked.cores)
    found = played(layout, MEASURED, Assumptions(), asked.seed)
    print(found.table())
    print(f"\n{found.summary()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
