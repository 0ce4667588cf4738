"""Exports altered by whoever has the file and no key, short. `make audit-trial` does it at length."""

from __future__ import annotations

import json
from pathlib import Path

from tests import forked
from trials.audit_kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]


def test_every_alteration_of_an_export_is_located(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    count = str(4 * len(KINDS))
    command = ["-m", "trials.audit", "--seed", "7", "--n", count, "--json", str(out)]
    done = forked.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert set(rows) == set(KINDS)
    assert all(row["met"]["located"] == row["tried"] == 4 for row in rows.values())
