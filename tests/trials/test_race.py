"""Group B, short: many go for one run or one request at once, and one wins. `make race` does it at length."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from trials.race import KINDS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(400)  # seconds on a quiet machine; others may be at work on it
CASES = {
    "b1_b2": "two approvers",
    "b3": "2 to 8 resume one run",
    "b3_apart": "processes resume one run",
    "claims": "processes claim one request",
    "b4": "stopped past its hold (SIGSTOP)",
    "b6": "cancel against approve",
    "b9": "one click, 2 to 8 times",
    "b11": "16 processes write one file",
    "withdrawal": "withdrawal against the start",
    "d1": "expiry against approve",
    "budgets": "runs race for one budget",
    "quorums": "a quorum of several",
    "roles": "a role taken while they approve",
    "glass": "glass against rejection",
    "withdrawn": "a vote withdrawn against the deciding one",
    "escalation": "escalation against approve",
    "marks": "claims and snoozes",
    "lists": "two lists decided at once",
    "outbox": "two dispatchers",
    "sessions": "two runs in one session",
    "workers": "workers and resumers",
    "attendants": "processes attend one run",
    "live": "in the session against the inbox",
    "hang_ups": "approve against hanging up",
}

#: Each kind is held in memory, the others on SQLite, where alone processes meet; `make race` holds each on each store.
IN_MEMORY = [case for case in CASES if "memory" in KINDS[CASES[case]].stores]
HELD_ON = {"memory": IN_MEMORY, "sqlite": [case for case in CASES if case not in IN_MEMORY]}


@pytest.fixture(scope="module")
def races(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    rows, printed = dict[str, Any](), ""
    options: dict[str, Any] = {"cwd": ROOT, "preload": ["trials.race"]}
    for store, cases in HELD_ON.items():
        out = tmp_path_factory.mktemp("race") / "out.json"
        words = ["--stores", store, "--kinds", ",".join(CASES[case] for case in cases)]
        command = ["-m", "trials.race", "--n", "2", "--seed", "7", "--json", str(out), *words]
        done = forked.run(command, capture_output=True, text=True, timeout=170, **options)
        assert done.returncode == 0 or out.exists(), done.stdout + done.stderr
        rows |= json.loads(out.read_text())["rows"]
        printed += done.stdout
    return {"rows": rows, "printed": printed}


@pytest.mark.parametrize(("store", "case"), [(store, case) for store, cases in HELD_ON.items() for case in cases])
def test_one_wins(races: dict[str, Any], store: str, case: str) -> None:
    row = races["rows"][f"{store}: {CASES[case]}"]
    assert row["tried"] > 0
    assert row["violations"] == 0, races["printed"]


def test_the_stores_that_the_races_left_are_sound(races: dict[str, Any]) -> None:
    told = {f"{store}: {case}" for store in HELD_ON for case in CASES.values()}
    assert [name for name, row in races["rows"].items() if row["violations"] and name not in told] == []


def test_every_kind_is_a_case() -> None:
    assert sorted(CASES.values()) == sorted(KINDS)
