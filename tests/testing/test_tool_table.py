"""The table of kinds: it tells what a run told, has every kind and every promise, and the manual shows it whole."""

from __future__ import annotations

import gc
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import keyturn
from keyturn.testing import ToolSuite
from keyturn.testing.suites.tool_table import BEHAVIOURS, MARKS, KindReport, Table, markdown, text, written
from keyturn.tools.base import Tool

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "kinds.md").read_text(encoding="utf-8")
SOURCE = str(Path(keyturn.__file__).resolve().parents[1])

# What an external caller carries out is started by its claim, and has tests of its own (tests/asks).
_ON_TOP = ("keyturn.deep.", "keyturn.deferred.", "keyturn.asks.")


def table_rows() -> list[list[str]]:
    """The rows of the manual's table: the suite in words, the class, and the cells."""
    inside = PAGE.partition(MARKS[0])[2].partition(MARKS[1])[0]
    lines = [line for line in inside.splitlines() if line.startswith("|")]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


def suites() -> dict[str, type[ToolSuite]]:
    """Every subclass of the suite in the tests of the rooms of tools, by its row."""
    rooms = [ROOT / "tests" / name for name in ("tools", "mcp")]
    for path in sorted(path for room in rooms for path in room.rglob("test_*.py")):
        if "Suite" in path.read_text(encoding="utf-8") or path.stem.endswith("_suite"):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    found, left = dict[str, type[ToolSuite]](), [ToolSuite]
    while left:
        for suite in left.pop().__subclasses__():
            left.append(suite)
            if suite.__module__.startswith(("tests.tools.", "tests.mcp.")) and "<locals>" not in suite.__qualname__:
                found[written_as(suite)] = suite
    return found


def written_as(suite: type[ToolSuite]) -> str:
    table = Table()
    table.add(KindReport(suite.__name__, [], "an_approved_call_runs_once", "plain", "passed", ""))
    return next(table.rows())[0]


def test_every_test_of_the_suite_is_behind_one_column() -> None:
    behind = [test for _says, tests in BEHAVIOURS.values() for test in tests]
    tests = [name.removeprefix("test_") for name, _ in inspect.getmembers(ToolSuite) if name.startswith("test_")]
    assert sorted(behind) == sorted(tests), "a promise that was added is a row of BEHAVIOURS"


def test_the_manual_has_every_kind_and_every_promise() -> None:
    head, _line, *rows = table_rows()
    assert head[2:] == list(BEHAVIOURS)
    assert sorted(row[0] for row in rows) == sorted(suites()), "a suite came or went: make kinds, and write the manual"


def test_every_public_kind_of_tool_is_in_the_table() -> None:
    public = [getattr(keyturn, name) for name in dir(keyturn) if name[0].isupper()]
    kinds = {kind.__name__ for kind in public if isinstance(kind, type) and issubclass(kind, Tool)} - {"Tool"}
    assert len(kinds) >= 9
    assert kinds <= {row[1] for row in table_rows()[2:]}


def test_every_kind_that_is_ours_is_in_the_table() -> None:
    gc.collect()  # kinds that an example of a docstring made are gone with it
    ours, left = set[str](), [Tool]
    while left:
        found = [kind for kind in left.pop().__subclasses__() if kind.__module__.startswith("keyturn.")]
        left += found
        # What the rooms on top make are function tools by other words: nothing of how they are decided changes.
        ours |= {kind.__name__ for kind in found if not kind.__module__.startswith(_ON_TOP)}
    assert ours - {row[1] for row in table_rows()[2:]} == set()


def test_no_cell_of_the_manual_fails_and_each_gap_has_its_reason() -> None:
    cells = [cell for row in table_rows()[2:] for cell in row[2:]]
    assert {cell.partition(" ")[0] for cell in cells} == {"pass", "-"}
    numbers = {int(cell.partition(" ")[2]) for cell in cells if cell.startswith("-")}
    assert all(f"\n{number}. " in PAGE for number in numbers)


TOY = '''
from tests.test_toy_members import TestToyTool as Toy

class TestGoodKind(Toy):
    """All is well."""

class TestBadKind(Toy):
    def test_a_grant_covers_the_next_call(self):
        """It is spent at once."""
        assert self.streamed is False

    def test_an_answered_call_does_not_run(self):
        self.instead("nobody answers it")

    test_no_crash_loses_or_doubles_an_effect = None

def test_something_else():
    raise AssertionError("this is no suite of tools")

del Toy
'''


ELSEWHERE = pytest.param(["-p", "xdist", "-n", "2"], id="elsewhere", marks=pytest.mark.trial)


@pytest.mark.trial
@pytest.mark.parametrize("workers", [pytest.param([], id="here"), ELSEWHERE])
def test_it_tells_what_a_run_told(
    workers: list[str], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", f"{SOURCE}:{ROOT}")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(test_toys=TOY)
    page = pytester.path / "page.md"
    page.write_text(f"before\n{MARKS[0]}{MARKS[1]}\nafter\n", encoding="utf-8")
    command = [
        "-p",
        "keyturn.testing.suites.tool_table",
        "-p",
        "no:cacheprovider",
        "-q",
        *workers,
        "--kinds-into",
        str(page),
    ]
    ran = pytester.runpytest_subprocess(*command, "-k", "approved_call or grant or answered or something")
    told = {line[:9]: line for line in ran.outlines if line.startswith(("good kind", "bad kind "))}
    cells = {row: re.findall(r"pass|fail|- \d", line) for row, line in told.items()}
    untold = ["- 1"] * 5
    assert cells["good kind"] == [*untold, "pass", "- 1", "- 1", "pass", "pass", *untold, "pass"]
    assert cells["bad kind "] == [*untold, "pass", "- 1", "- 1", "- 2", "fail", *untold, "fail"]
    assert all(line.split()[2:4] == ["ToyTool", "toy"] for line in told.values())
    assert any("nobody answers it" in line for line in ran.outlines)
    assert "this is no suite" not in ran.stdout.str()
    assert ran.ret == pytest.ExitCode.TESTS_FAILED
    assert page.read_text(encoding="utf-8").count("|") == 0, "a run that failed writes no manual"


def test_a_page_keeps_what_stands_around_the_table() -> None:
    table = Table()
    table.add(KindReport("TestToyTool", ["ToyTool", "toy"], "an_approved_call_runs_once", "streamed", "passed", ""))
    page = written(f"before\n{MARKS[0]}what stood here\n{MARKS[1]}\nafter\n", table)
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert markdown(table) in page
    assert "what stood here" not in page
    assert written(page, table) == page
    assert text(table).count("pass") == 2
