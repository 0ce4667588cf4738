"""`make trials` reads what each trial prints, and writes one table into the manual."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from trials.__main__ import (
    BEGIN,
    END,
    PAGE,
    Counted,
    block,
    listed,
    of_seeds,
    of_share,
    of_table,
    of_tests,
    run,
)
from trials.table import put_between

GIVEN = argparse.Namespace(kills=3, n=4, seeds=5, states=6, count=7, seed=8, jobs=2)


def test_counts_are_read_of_what_a_trial_prints() -> None:
    assert of_table("| kind | tried | violations |\n| a | 1 | 0 |\n| all  | 13,339 | 9 | 2 |\n") == (13_339, 2)
    assert of_seeds("\nseeds       1,000\nviolations      3\n") == (1_000, 3)
    assert of_share("  7  a way\n94 of 95 mutants caught; the build as it is passes.\n") == (95, 1)
    assert of_tests("F..\n2 failed, 30 passed, 4 skipped in 3.21s") == (32, 2)


def test_a_series_that_fails_or_prints_no_counts_is_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    [series, *_] = listed(GIVEN)
    [found] = run([type(series)("none", "make none", ["tests.needs"], of_table)], 1)
    assert (found.tried, found.violations) == (0, 1)
    assert "none: make none" in capsys.readouterr().out


def test_the_table_stands_between_its_comments_and_nothing_else_changes(tmp_path: Path) -> None:
    found = [Counted(series, 1_234, 0, 9.6) for series in listed(GIVEN)]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    text = block(found, "2026-11-27", "abc", 2)
    put_between(page, BEGIN, END, text)
    assert page.read_text() == f"before\n{text}\nafter\n"
    assert "| kills and faults " in text
    assert "`make crash KILLS=3 SEED=8`" in text
    page.write_text("nothing")
    with pytest.raises(SystemExit, match="lacks the two comments"):
        put_between(page, BEGIN, END, text)
    assert PAGE.read_text(encoding="utf-8").count(BEGIN) == PAGE.read_text(encoding="utf-8").count(END) == 1
