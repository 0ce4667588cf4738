"""Stores altered behind their backs, and forgeries, short. `make rot` and `make forge` do it at length."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn.testing.postgres import DEBIAN
from tests import forked
from trials.forge_kinds import FORGED
from trials.forge_words import WORDS
from trials.rot_kinds import FILES, KINDS

ROOT = Path(__file__).resolve().parents[2]


def tried(module: str, out: Path, *arguments: str, env: dict[str, str] | None = None) -> Any:
    """What a trial wrote down; it fails where a promise was broken."""
    command = ["-m", module, "--seed", "7", "--json", str(out), *arguments]
    done = forked.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55, preload=[module], env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text())["rows"]


def test_what_is_altered_in_a_file_is_refused_or_reported(tmp_path: Path) -> None:
    """H3, H4, H8, L1: no altered effect, nothing lost silently, no hang, no error that is not ours."""
    rows = tried("trials.rot", tmp_path / "out.json", "--stores", "sqlite", "--n", str(len(KINDS | FILES)))
    assert set(rows) == {f"sqlite: {name}" for name in KINDS | FILES}
    lines = [row for name, row in rows.items() if name.startswith("sqlite: line")]
    assert all(row["met"]["refused or reported"] for row in lines)


@pytest.mark.trial
@pytest.mark.skipif(not DEBIAN.exists(), reason="no PostgreSQL")
def test_what_is_altered_in_postgresql_is_refused_or_reported(
    tmp_path: Path, trials_environment: Callable[[], dict[str, str]]
) -> None:
    words = ("--stores", "postgresql", "--n", str(len(KINDS)))
    rows = tried("trials.rot", tmp_path / "out.json", *words, env=trials_environment())
    assert set(rows) == {f"postgresql: {name}" for name in KINDS}


@pytest.mark.trial
def test_what_is_forged_without_the_key_lets_nothing_run(tmp_path: Path) -> None:
    rows = tried("trials.forge", tmp_path / "out.json", "--n", str(2 * len(FORGED | WORDS)))
    assert set(rows) == {f"store: {name}" for name in FORGED} | set(WORDS)
    assert all(row["met"]["refused or reported"] for row in rows.values())
