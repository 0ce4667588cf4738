"""Deep agents that change files and run commands are killed, and nothing is written twice or lost.

A short version of it; `make trials` tries every point. What is tried, and how, stands in `kills.py`.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests import forked
from tests.deep.kills import BACKENDS, SCENARIOS
from tests.needs import missing

ROOT = Path(__file__).resolve().parents[2]
# Tries every nth point; a prime, so that it meets other points in each scenario.
SOME = {"alone": 37, "at_once": 41, "delegated": 53}


def killed(scenario: str, backend: str, every: int) -> int:
    if backend == "sandbox" and shutil.which("bwrap") is None:
        pytest.skip(missing("bwrap"))
    command = ["-m", "tests.deep.kills", scenario, backend, str(every)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}
    done = forked.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=3000, preload=["tests.deep.kills"]
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found["broken"], "\n".join(found["broken"])
    return found["kills"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("scenario", "backend"),
    [
        ("at_once", "folder"),
        pytest.param("alone", "sandbox", marks=pytest.mark.trial),
        pytest.param("delegated", "memory", marks=pytest.mark.trial),
    ],
)
def test_a_kill_loses_and_doubles_nothing(scenario: str, backend: str) -> None:
    assert killed(scenario, backend, SOME[scenario]) >= 2


@pytest.mark.trial
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_kill_at_any_point_loses_and_doubles_nothing(scenario: str, backend: str) -> None:
    assert killed(scenario, backend, 1) >= 2
