"""What a fleet carries: the load says what it measured, the plan multiplies it, and a simulated Monday agrees."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from keyturn.testing.postgres import throwaway_postgres
from trials.fleet_plan import Assumptions, Constants, need, planned
from trials.load import HEAD, Scene, constants, measured
from trials.sharded import Layout, bound, played

CONSTANTS = Constants(
    waiting_bytes=4_000, finished_bytes=8_000, wal_bytes=12_000, postgres_ms=5.0, worker_ms=10.0, desk_ms=10.0
)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "load.md"


@pytest.mark.trial
@pytest.mark.timeout(600)
def test_a_load_is_measured_with_real_workers() -> None:
    with throwaway_postgres(durable=True) as server:
        found = measured(server, Scene(workers=1, approvers=4, pending=200, streams=2), 20)
    assert len(found.row()) == len(HEAD)
    assert {len(times) for times in found.took.values()} == {20}
    assert all(0 < each < 120 for times in found.took.values() for each in times)
    used = constants([found])
    assert 1_000 < used.waiting_bytes < 100_000
    assert min(used.postgres_ms, used.worker_ms, used.desk_ms, used.wal_bytes) > 0


def test_the_manual_has_the_plan_that_the_constants_give() -> None:
    assert planned() in PAGE.read_text(encoding="utf-8")


def test_a_plan_is_the_product_of_its_constants() -> None:
    wanted = need(25_920_000, CONSTANTS, Assumptions())
    assert (wanted.rate, wanted.peak) == (100, 4_320)
    assert (wanted.postgres_cores, wanted.worker_cores, wanted.peak_postgres_cores) == (0.5, 1.0, 21.6)
    assert (wanted.in_motion, wanted.workers, wanted.peak_workers) == (2_000, 20, 864)
    assert (wanted.wal_a_second, wanted.bytes_waiting, wanted.renewals) == (1_200_000, 103_680_000_000, 100)


SMALL = Layout(1_000_000, shards=4, workers=80, tenants=200, cores=2.0)
SHORT = Assumptions(monday_share=0.01, monday_seconds=60.0)


def test_a_simulated_monday_comes_to_what_the_plan_says() -> None:
    found, wanted = played(SMALL, CONSTANTS, SHORT, 7), need(SMALL.waiting, CONSTANTS, SHORT)
    decisions = sum(shard.given for shard in found.shards)
    assert decisions == pytest.approx(wanted.peak * SHORT.monday_seconds, rel=0.05)
    assert sum(shard.served for shard in found.shards) == pytest.approx(decisions, rel=0.001), "none is lost"
    assert sum(shard.share for shard in found.shards) == pytest.approx(1)
    assert decisions / SHORT.monday_seconds * found.postgres_cores == pytest.approx(
        wanted.peak_postgres_cores, rel=0.05
    )
    assert any(shard.longest > 0 for shard in found.shards), "one was away for a while"
    assert 0 < found.reader.refused <= 2, "a tenant that was moved is found by one refusal"
    assert found.reader.asked <= SMALL.tenants + found.reader.refused, "what was read is believed for a minute"


def test_a_shard_that_carries_less_than_arrives_is_not_said_to_do() -> None:
    with pytest.raises(RuntimeError, match="carries less than arrives"):
        played(replace(SMALL, workers=0), CONSTANTS, SHORT, 7)


def test_another_shard_moves_its_part_of_the_workers_alone() -> None:
    before = [bound(worker, range(16)) for worker in range(2_000)]
    after = [bound(worker, range(17)) for worker in range(2_000)]
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {16}
    assert len(moved) == pytest.approx(2_000 / 17, rel=0.3)
    assert max(Counter(before).values()) < 1.4 * 2_000 / 16
