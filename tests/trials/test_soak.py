"""The soak of a fleet, short: faults happen, every run ends, and nothing is broken."""

from __future__ import annotations

import pytest

from trials.soak import soak, table

pytestmark = [pytest.mark.trial, pytest.mark.timeout(600)]


async def test_a_fleet_under_faults_loses_nothing_and_runs_nothing_twice() -> None:
    """I2, I6: workers and starters die, one stands still, the database crashes, connections are cut."""
    found = await soak("journal", 0.5, seed=7, rate=3)
    assert found.violations == []
    assert found.faults.total() >= 5
    assert found.served > 0
    assert found.ended["finished"] == found.started > 0
    assert "worker killed" in table(found)
