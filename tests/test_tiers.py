"""What `make test` has to hold, and how much of what is dear it may start.

Counts, not seconds: a browser, a screen, a database of PostgreSQL and a program are what makes a test dear. Where only
some tests are collected, fewer are counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from fnmatch import filter as matching
from pathlib import Path
from typing import Any

import pytest

from tests.ways import SUITES

ROOT = Path(__file__).resolve().parents[1]
#: How many tests of `make test` may use each; whoever needs another one leaves one to the trials.
MOST = {"a browser": 8, "a screen": 36, "PostgreSQL": 160, "a program": 50}
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


def test_each_promise_of_a_suite_is_tried_for_one_of_its_members(request: pytest.FixtureRequest) -> None:
    """Members take turns (`tests/ways.py`); where only some tests are collected, none of them may have its turn."""
    members: dict[type, set[type]] = defaultdict(set)
    tried = set[tuple[type, str]]()
    items = [item for item in request.session.items if item.get_closest_marker("trial") is None]
    for item in items:
        kind = getattr(item, "cls", None)
        for suite in kind.__mro__ if kind is not None else ():
            if suite.__module__.startswith(SUITES):
                members[suite].add(kind)
                tried.add((suite, getattr(item, "originalname", "")))
    promised = {(suite, name) for suite, kinds in members.items() if len(kinds) > 2 for name in vars(suite)}
    lost = sorted(f"{suite.__name__}.{name}" for suite, name in promised - tried if name.startswith("test_"))
    assert len(items) < 5_000 or not lost, lost


def written() -> list[tuple[str, str, bool]]:
    """Return each test's file and name, and whether it is left to the trials: read line by line, for there are many."""
    found: list[tuple[str, str, bool]] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text, trial = path.read_text("utf-8"), False
        whole = re.search(r"^pytestmark = .*mark\.trial", text, re.MULTILINE) is not None
        for line in text.split("\n"):
            if line.lstrip().startswith("@pytest.mark.trial"):
                trial = True
            elif function := re.match(r"\s*(?:async )?def (\w+)\(", line):
                if function[1].startswith("test"):
                    found.append((f"/{path.relative_to(ROOT)}", function[1], whole or trial))
                trial = False
    return found


def test_each_finding_has_a_test_that_is_no_trial() -> None:
    """A row of docs/findings.md whose tests are all trials would be held before a release alone."""
    trials: dict[str, list[bool]] = defaultdict(list)
    for file, name, trial in written():
        for place in (name, *(file[at + 1 :] for at, letter in enumerate(file) if letter == "/")):
            trials[place].append(trial)
    lost: list[str] = []
    for number, row in enumerate((ROOT / "docs" / "findings.md").read_text("utf-8").split("\n"), 1):
        named = re.findall(r"`((?:tests/)?[\w/.]*test_[\w/.*]+)`", row) if row.startswith("| ") else []
        meant = [each for name in named for each in (matching(trials, name) if "*" in name else [name])]
        are_trials = [trial for each in meant for trial in trials.get(each, [])]
        if are_trials and all(are_trials):
            lost.append(f"line {number}: {', '.join(named)}")
    assert not lost, "\n".join(lost)
