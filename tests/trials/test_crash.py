"""Group A, short: processes are ended, disks fail, connections break, and nothing that was promised is lost or doubled.

Each kind of fault strikes here, few of its points: `kept` looks at every kind for itself.
The trials themselves fork and have no threads, so they run in a process of their own. `make crash` does it at length.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn.testing.postgres import DEBIAN
from tests import forked
from tests.needs import missing
from trials.attempt import KINDS, Trial

ROOT = Path(__file__).resolve().parents[2]
# Seconds on a quiet machine; others may be at work on it.
pytestmark = pytest.mark.timeout(400)
Environment = Callable[[], dict[str, str] | None]
SOME = "approvals,people"  # the other chapters are swept in memory (tests/test_scenarios.py)


def tried(out: Path, *arguments: str, env: Environment = lambda: None) -> Any:
    """What `python -m trials.crash` wrote down; it fails where a promise was broken."""
    command = ["-m", "trials.crash", "--json", str(out), *arguments]
    done = forked.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=170, preload=["trials.crash"], env=env()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def postgres() -> None:
    if not DEBIAN.exists() and shutil.which("initdb") is None:
        pytest.skip(missing("PostgreSQL"))


@pytest.fixture(scope="module")
def sqlite_rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("sqlite") / "out.json"
    return tried(out, "--kills", "1", "--seed", "7", "--kinds", "sqlite", "--ways", "app", "--chapters", SOME)["rows"]


@pytest.fixture(scope="module")
def postgres_rows(
    postgres: None, tmp_path_factory: pytest.TempPathFactory, trials_environment: Environment
) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("postgres") / "out.json"
    words = ("--kills", "4", "--seed", "7", "--kinds", "postgresql", "--ways", "together", "--chapters", SOME)
    return tried(out, *words, env=trials_environment)["rows"]


def kept(rows: dict[str, Any], *words: str) -> int:
    """How many trials there were of the kinds that contain these words; none of them broke a promise."""
    chosen = [row for kind, row in rows.items() if any(word in kind for word in words)]
    assert chosen
    assert all(row["tried"] > 0 and row["violations"] == 0 for row in chosen)
    return sum(row["tried"] for row in chosen)


def test_killed_at_writes_and_syncs(sqlite_rows: dict[str, Any]) -> None:
    assert kept(sqlite_rows, "kill before a", "kill after a", "kill in half") >= 5


def test_the_power_is_lost(sqlite_rows: dict[str, Any]) -> None:
    assert kept(sqlite_rows, "power") >= 1


def test_a_disk_that_is_full_or_fails_loses_and_doubles_nothing(sqlite_rows: dict[str, Any]) -> None:
    assert kept(sqlite_rows, "full", "EIO") >= 3


@pytest.mark.trial
def test_killed_at_messages(postgres_rows: dict[str, Any]) -> None:
    assert kept(postgres_rows, "kill") >= 4


@pytest.mark.trial
def test_the_answer_to_a_commit_is_lost_or_the_commit_comes_late(
    postgres: None, tmp_path: Path, trials_environment: Environment
) -> None:
    words = ("--kills", "1", "--seed", "7", "--kinds", "COMMIT", "--ways", "together", "--chapters", "approvals")
    assert kept(tried(tmp_path / "out.json", *words, env=trials_environment)["rows"], "COMMIT") >= 2


@pytest.mark.trial
def test_connections_break_in_every_phase(postgres_rows: dict[str, Any]) -> None:
    assert kept(postgres_rows, "cut") >= 2


@pytest.mark.trial
def test_a_kill_around_an_effect_is_settled_and_a_commit_that_comes_late_is_no_conflict(
    postgres: None, tmp_path: Path, trials_environment: Environment
) -> None:
    """Whether the effect happened cannot be known: a person is asked, but of a call with a key or a probe nobody is.

    A client whose commit is still under way as it looks for it waits for it, and finds it.
    """
    before, after = "sqlite: kill before an effect", "sqlite: kill after an effect"
    trials = [Trial(after, "approvals", "plain", 1), Trial(before, "approvals", "streamed", 1)]
    trials += [Trial(after, "doubts", "plain", at) for at in (5, 6)] + [Trial(before, "doubts", "streamed", 6)]
    late = [Trial("postgresql: COMMIT comes late", "opening", "plain", at) for at in (2, 6)]
    found = tried(tmp_path / "out.json", "--replay", *map(str, trials + late), env=trials_environment)
    assert all(each["struck"] for each in found)
    assert [each["met"]["doubts"] for each in found[: len(trials)]] == [1, 1, 0, 0, 0]


@pytest.mark.trial
def test_a_session_is_killed_and_taken_up_by_its_run(tmp_path: Path) -> None:
    """Wherever it was: nothing runs twice or without a word, and each connection hears of each result once."""
    chosen = ["--kinds", "sqlite: kill", "--ways", "streamed", "--chapters", "realtime"]
    assert kept(tried(tmp_path / "out.json", "--kills", "1", "--seed", "7", *chosen)["rows"], "kill") >= 7


def test_a_trial_is_read_as_it_is_printed() -> None:
    for kind in KINDS:
        trial = Trial(kind, "doubts", "app", 12, again=3, seed=5)
        assert Trial.read(str(trial)) == trial
