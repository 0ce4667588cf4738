"""Limits of the whole fleet: however many workers claim at the same time, no more runs are held than may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn.journal.base import Claim, FleetFull
from keyturn.journal.memory import MemoryJournal
from keyturn.journal.optional import FleetLimits
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing.suites.journal_case import Clock

MINUTE = 60_000


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
async def test_workers_that_claim_at_once_hold_no_more_runs_than_may_be(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    clock = Clock(1_000_000)
    made: dict[str, Callable[[], Any]] = {
        "sqlite": lambda: SQLiteJournal(tmp_path / "runs.db", clock=clock),
        "postgresql": lambda: PostgresJournal(request.getfixturevalue("database"), clock=clock),
    }
    stores = [MemoryJournal(clock)] * 2 if kind == "memory" else [made[kind](), made[kind]()]
    ours = [(store.of(tenant), number) for number, store in enumerate(stores) for tenant in ("a", "b")]
    for view, number in ours:
        for each in range(5):
            await view.append(f"{number}-{each}", 0, [b"1"])
    await stores[0].of("a").claim("@outbox", "w", MINUTE)  # which is no run

    async def claimed(limits: FleetLimits) -> dict[str, list[Claim]]:
        """Let each worker claim all of its runs at once; return what it holds, by tenant."""
        asked = [(view, number, each) for view, number in ours for each in range(5)]
        claims = (view.claim_within(f"{number}-{each}", "w", MINUTE, limits) for view, number, each in asked)
        found = await asyncio.gather(*claims, return_exceptions=True)
        assert {type(each) for each in found} <= {Claim, FleetFull}
        held = dict[str, list[Claim]](a=[], b=[])
        for (view, _, _), claim in zip(asked, found, strict=True):
            held[view.tenant] += [claim] if isinstance(claim, Claim) else []
        return held

    held = await claimed(FleetLimits(tenant=3))
    assert [len(held["a"]), len(held["b"])] == [3, 3]
    assert await stores[1].of("b").room(FleetLimits(4, 10)) == 1
    assert await stores[0].of("c").room(FleetLimits(4, 8)) == 2
    await stores[0].of("a").release(held["a"][0])
    assert await stores[1].of("a").room(FleetLimits(3)) == 1
    clock.advance(MINUTE)  # a worker that died holds its runs until its lease is over
    held = await claimed(FleetLimits(tenant=4, all=6))
    assert len(held["a"]) + len(held["b"]) == 6
    assert max(len(each) for each in held.values()) <= 4
    if kind != "memory":
        for store in stores:
            await store.close()
