"""The table of kinds of tools and the promises each keeps, made from a real run of the suites, never by hand.

`make kinds` prints it: `pytest -p keyturn.testing.suites.tool_table` runs the tests of every subclass of `ToolSuite`
and no others. A cell fails if one of its tests failed; it is `-`, with the reason below, where the suite says that a
scenario is impossible for the kind, or where the kind promises something else in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

# What a column says, and the tests of the suite behind it. The streamed half of all of them is the last one.
BEHAVIOURS: dict[str, tuple[str, tuple[str, ...]]] = {
    "never": ("set never to ask, it runs at once", ("a_tool_that_never_asks_runs_at_once",)),
    "always": ("set to ask, it waits, and a resume alone does nothing", (
        "a_tool_that_asks_waits_until_somebody_decides", "the_tool_and_its_calls_are_fit_to_be_tested",
    )),
    "callable": ("a function decides from what will run; if that fails, it asks", (
        "a_callable_decides_from_what_will_run", "a_callable_that_fails_asks",
    )),
    "refused": ("arguments that do not fit ask nobody, and run nothing", ("arguments_that_do_not_fit_ask_nobody",)),
    "shown": ("what is shown is what will run, and no face lets data out of its frame", (
        "what_is_prepared_is_what_will_run", "a_preview_has_four_kinds_of_block", "a_preview_is_escaped_by_every_face",
    )),
    "approve": ("approved, it runs once", ("an_approved_call_runs_once",)),
    "reject": ("rejected, it does not run, and the model is told", ("a_rejected_call_does_not_run",)),
    "edit": ("edited, it runs as it was edited; an edit that does not fit decides nothing", (
        "an_edited_call_runs_as_it_was_edited", "an_edit_survives_a_change_of_the_tool",
        "an_edit_that_does_not_fit_decides_nothing",
    )),
    "answer": ("a person gives its result, and it does not run", ("an_answered_call_does_not_run",)),
    "grant": ("a standing approval covers its next call, and no other tool", (
        "a_grant_covers_the_next_call", "a_grant_covers_no_other_tool",
    )),
    "partial": ("calls of one reply are decided one by one", ("calls_of_one_reply_are_decided_one_by_one",)),
    "saved": ("saved and loaded, it goes on elsewhere", ("a_saved_state_goes_on_elsewhere",)),
    "changed": ("changed or gone meanwhile, it asks again or is missed", (
        "a_tool_that_changed_asks_again", "a_tool_that_is_gone_is_missed_and_nothing_is_lost",
    )),
    "doubt": ("started and lost, it is in doubt", (
        "a_started_call_that_was_lost_is_in_doubt", "a_call_of_which_nobody_knows_the_end_is_in_doubt",
    )),
    "crash": ("cut at every commit, no effect is lost or doubled", ("no_crash_loses_or_doubles_an_effect",)),
    "stream": ("all of these again, streamed", ()),
}  # fmt: skip
_PROPERTY = "keyturn tool"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+")


class KindReport(NamedTuple):
    """Holds what one test of a suite reports about a kind."""

    suite: str
    tool: list[str]
    test: str
    way: str
    outcome: str
    why: str


class Table:
    """Collects the reports, by row and column.

    >>> table = Table()
    >>> table.add(KindReport("TestToyTool", ["ToyTool", "toy"], "an_approved_call_runs_once", "plain", "passed", ""))
    >>> table.cell("TestToyTool", "approve")
    'pass'
    """

    def __init__(self) -> None:
        self.told: dict[str, dict[str, list[KindReport]]] = {}
        self.tools: dict[str, list[str]] = {}

    def add(self, told: KindReport) -> None:
        """Add a test's report."""
        column = next((name for name, (_says, tests) in BEHAVIOURS.items() if told.test in tests), None)
        if column is None:
            return
        row = self.told.setdefault(told.suite, {})
        row.setdefault(column, []).append(told)
        if told.way == "streamed":
            row.setdefault("stream", []).append(told._replace(why=""))
        if told.tool:
            self.tools[told.suite] = told.tool

    def cell(self, suite: str, column: str) -> str:
        """Return `pass`, `fail`, or `-` where the column's first test is about something else."""
        tests = self.told[suite].get(column, [])
        if any(told.outcome == "failed" for told in tests):
            return "fail"
        return "pass" if tests and not self.why(suite, column) else "-"

    def why(self, suite: str, column: str) -> str:
        """Return why there is no verdict, "" where there is one."""
        tests = self.told[suite].get(column, [])
        if not tests:
            return "not tried in this row, but in another of the same kind"
        skipped = [told.why for told in tests if told.outcome == "skipped"]
        first = (BEHAVIOURS[column][1] or ("",))[0]
        return skipped[0] if skipped else next((told.why for told in tests if told.test == first), "")

    def rows(self) -> Iterator[list[str]]:
        """Return the cells, row by row; a number in one leads to its note."""
        notes = self.notes()
        for suite in sorted(self.told, key=lambda suite: (*self.tools.get(suite, []), suite)):
            cells = [self.cell(suite, column) for column in BEHAVIOURS]
            whys = [
                self.why(suite, column) if cell == "-" else "" for column, cell in zip(BEHAVIOURS, cells, strict=True)
            ]
            marked = [f"{cell} {notes.index(why) + 1}" if why else cell for cell, why in zip(cells, whys, strict=True)]
            yield [_words(suite), *self.tools.get(suite, ["", ""]), *marked]

    def notes(self) -> list[str]:
        """Return the reasons of all cells without a verdict, each once."""
        places = ((suite, column) for suite in sorted(self.told) for column in BEHAVIOURS)
        return list(dict.fromkeys(self.why(*place) for place in places if self.cell(*place) == "-"))


def _words(suite: str) -> str:
    """Return the name of a suite in words.

    >>> _words("TestHostedMCPTool")
    'hosted MCP tool'
    """
    words = _WORD.findall(suite.removeprefix("Test"))
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in words)


HEAD = ["what is tested", "class", "kind", *BEHAVIOURS]


def text(table: Table) -> str:
    """Render the table for a terminal."""
    rows = [HEAD, *table.rows()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    legend = [f"{name:10}{says}" for name, (says, _tests) in BEHAVIOURS.items()]
    notes = [f"{number:>4}  {why}" for number, why in enumerate(table.notes(), 1)]
    return "\n".join([*lines, "", *legend, *(["", *notes] if notes else [])])


def markdown(table: Table) -> str:
    """Render the table for the manual."""
    rows = [[row[0], f"`{row[1]}`", *row[3:]] for row in table.rows()]
    lines = [[*HEAD[:2], *BEHAVIOURS], ["---"] * (2 + len(BEHAVIOURS)), *rows]
    legend = [f"- **{name}**: {says}." for name, (says, _tests) in BEHAVIOURS.items()]
    notes = [f"{number}. {why}" for number, why in enumerate(table.notes(), 1)]
    return "\n".join([*("| " + " | ".join(line) + " |" for line in lines), "", *legend, "", *notes]).rstrip() + "\n"


MARKS = ("<!-- kinds: written by make kinds -->\n", "<!-- end of kinds -->")


def written(page: str, table: Table) -> str:
    """Return a page with the table between its marks.

    >>> written(f"before {MARKS[0]}what stood here{MARKS[1]} after", Table()).count("what stood here")
    0
    """
    before, _, rest = page.partition(MARKS[0])
    return f"{before}{MARKS[0]}\n{markdown(table)}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add one option: the page whose table is written anew."""
    parser.addoption("--kinds-into", metavar="PAGE", help="write the table of kinds into this page of the manual")


def pytest_configure(config: pytest.Config) -> None:
    """Collect the reports, in the process to which the others send them."""
    if hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(_Gatherer(config), "keyturn kinds")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the suites of tools and nothing else."""
    others = [item for item in items if not _in_a_suite(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if _in_a_suite(item)]


def _in_a_suite(item: pytest.Item) -> bool:
    from .tools import ToolSuite

    kind: Any = getattr(item, "cls", None)
    return isinstance(kind, type) and issubclass(kind, ToolSuite) and _test_of(item) in _TESTS


_Reporting = Generator[None, pytest.TestReport, pytest.TestReport]
_TESTS = {test for _says, tests in BEHAVIOURS.values() for test in tests}


def _test_of(item: object) -> str:
    return str(getattr(item, "originalname", "") or "").removeprefix("test_")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> _Reporting:
    """Add to each report which kind it is about, as text, so that it travels between processes."""
    report = yield
    suite: Any = getattr(item, "cls", None)
    if suite is not None and _in_a_suite(item) and (report.when == "call" or report.outcome != "passed"):
        told = [suite.__name__, _tool_of(item), _test_of(item), _way_of(item), report.outcome, _apart(item, call)]
        report.user_properties.append((_PROPERTY, json.dumps(told)))
    return report


def _tool_of(item: Any) -> list[str]:
    """Return the class and the kind of the tool that the test used, [] where it made no agent."""
    agent = getattr(item.instance, "agent", None)
    tools = [*agent.handoffs, *agent.tools] if agent is not None else []
    return [type(tools[0]).__name__, tools[0].kind] if tools else []


def _way_of(item: Any) -> str:
    return item.callspec.params.get("way", "") if hasattr(item, "callspec") else ""


def _apart(item: Any, call: pytest.CallInfo[None]) -> str:
    """Return why the test is about something else: the suite said so, the kind has its own test, or it was skipped."""
    from .tools import ToolSuite

    if call.excinfo is not None:
        return str(call.excinfo.value) if call.excinfo.errisinstance(pytest.skip.Exception) else ""
    own = item.function is not None and item.function.__qualname__ != getattr(ToolSuite, item.originalname).__qualname__
    said = (item.function.__doc__ or "it promises something else").strip().partition("\n")[0]
    return getattr(item.instance, "apart", "") or (said if own else "")


class _Gatherer:
    """Collects the reports of all processes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.table = config, Table()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, told in report.user_properties:
            if name == _PROPERTY:
                self.table.add(KindReport(*json.loads(str(told))))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.table.told:
            return
        terminalreporter.section("kinds of tools", sep="-")
        terminalreporter.write_line(text(self.table))
        page = self.config.getoption("--kinds-into")
        if page and not any(terminalreporter.stats.get(found) for found in ("failed", "error")):
            Path(page).write_text(written(Path(page).read_text(encoding="utf-8"), self.table), encoding="utf-8")
