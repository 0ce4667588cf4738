"""The trials of speed, small: they say what they measured, and what they measured was done."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from trials.pace import cycles, ways
from trials.pile import measure


def test_a_pile_is_paged() -> None:
    told = asyncio.run(measure(3_000, 20))
    assert told.startswith("3,000 open requests")
    assert "3,000 walked in order" in told
    assert re.search(r"one tool +\| +\d+\.\d", told)


def test_cycles_and_ways_are_timed(tmp_path: Path) -> None:
    assert asyncio.run(cycles(f"sqlite:///{tmp_path}/cycles.db", 8)) > 0
    times = asyncio.run(ways(f"sqlite:///{tmp_path}/ways.db", 4, None))
    assert len(times) == 4
    assert 0 < times[0] <= times[-1] < 30
