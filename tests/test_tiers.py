"""What `make test` has to hold, and how much of what is dear it may start.

Counts, not seconds: a browser, a screen, a database of PostgreSQL and a program are what makes a test dear. Where only
some tests are collected, fewer are counted.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.sources import TOGETHER, parsed

ROOT = Path(__file__).resolve().parents[1]
#: How many tests of `make test` may use each; whoever needs another one leaves one to the trials.
MOST = {"a browser": 14, "a screen": 60, "PostgreSQL": 240, "a program": 170}
SCREENS = ("tests/chat/", "tests/inbox_screen/")
DATABASES = {"database", "new_database", "postgres_server", "databases"}
PROGRAMS = {"subprocess", "forked", "create_subprocess_exec"}


def uses(item: Any) -> set[str]:
    """Return what is dear of what a test uses by itself."""
    fixtures = set(getattr(item, "fixturenames", ()))
    given = getattr(getattr(item, "callspec", None), "params", {}).values()
    names = set(getattr(getattr(item.function, "__code__", None), "co_names", ()))
    found = {
        "a browser": "browser" in fixtures,
        "a screen": item.nodeid.startswith(SCREENS),
        "PostgreSQL": "postgresql" in given or bool(fixtures & DATABASES),
        "a program": bool(names & PROGRAMS),
    }
    return {name for name, is_used in found.items() if is_used}


def test_few_tests_start_what_is_dear(request: pytest.FixtureRequest) -> None:
    kept = [item for item in request.session.items if item.get_closest_marker("trial") is None]
    counted = Counter(name for item in kept for name in uses(item))
    over = {name: count for name, count in counted.items() if count > MOST[name]}
    assert not over, f"{over}: at most {MOST}"


@cache
def written() -> list[tuple[str, str, bool]]:
    """Return each test's file and name, and whether it is left to the trials, read from the source."""
    found: list[tuple[str, str, bool]] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        module = parsed(path)
        whole = any(isinstance(node, ast.Assign) and "mark.trial" in ast.unparse(node.value) for node in module.body)
        for place in (module, *(node for node in module.body if isinstance(node, ast.ClassDef))):
            for node in place.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                    marks = [ast.unparse(each) for each in node.decorator_list]
                    found.append((f"/{path.relative_to(ROOT)}", node.name, whole or "pytest.mark.trial" in marks))
    return found


@pytest.mark.together(TOGETHER)
@pytest.mark.timeout(400)
def test_each_finding_has_a_test_that_is_no_trial() -> None:
    """A row of docs/findings.md whose tests are all trials would be held before a release alone."""
    lost: list[str] = []
    for number, row in enumerate((ROOT / "docs" / "findings.md").read_text("utf-8").split("\n"), 1):
        named = re.findall(r"`((?:tests/)?[\w/.]*test_[\w/.*]+)`", row) if row.startswith("| ") else []
        trials = [
            trial
            for file, name, trial in written()
            if any(fnmatch(name, each) or file.endswith(f"/{each}") for each in named)
        ]
        if trials and all(trials):
            lost.append(f"line {number}: {', '.join(named)}")
    assert not lost, "\n".join(lost)
