"""The trials of speed, small: they say what they measured, and what they measured was done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from trials.pace import cycles, ways
from trials.pile import PAGES, measure


@pytest.mark.trial
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_pile_is_paged(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/pile.db" if kind == "sqlite" else request.getfixturevalue("database")
    told, lines = asyncio.run(measure(url, 3_000, 20))
    assert ": 3,000 open requests" in told
    assert "3,000 walked in order" in told
    read = {what: int(rows.replace(",", "")) for _, what, rows, *_ in lines}
    assert set(read) == set(PAGES)
    assert (read["the list"], read["one tool"]) == (50, 50)
    assert read["alike"] <= 4 + 4, "those that are alike, and one request with its log"
    assert read["a search in vain"] <= 2_000
    assert all(float(taken) > 0 for line in lines for taken in line[3:])


@pytest.mark.trial
def test_cycles_and_ways_are_timed(tmp_path: Path) -> None:
    assert asyncio.run(cycles(f"sqlite:///{tmp_path}/cycles.db", 8)) > 0
    times = asyncio.run(ways(f"sqlite:///{tmp_path}/ways.db", 4, None))
    assert len(times) == 4
    assert 0 < times[0] <= times[-1] < 30
