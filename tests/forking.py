"""Runs tests in processes forked after the collection: `pytest --forks 4`. What was imported is imported once.

The parent hands out files, those with the longest timeouts first, and reports what its children send. A child that dies
fails the test that it was running; another one goes on with the next. No test is here.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
import warnings
from collections.abc import Generator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest
from _pytest._io import TerminalWriter

from tests.databases import are_used_by, shared
from tests.forked import template
from trials.forks import ends_with

Tests = list[int]


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run the tests in N processes, forked once all tests are collected"
    parser.addoption("--forks", type=int, default=0, metavar="N", help=text)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count = session.config.getoption("--forks")
    if not count or session.testsfailed or session.config.option.collectonly or len(session.items) < 2:
        return None
    _Parent(session).run(count)
    return True


def files(items: list[pytest.Item]) -> list[Tests]:
    """Cut tests into files; those that may take longest come first.

    Tests marked `together("name")` are one file, wherever they stand: they share what is dear to start.
    """
    numbered = sorted(range(len(items)), key=lambda place: _file(items[place]))
    made = [list(group) for _, group in groupby(numbered, key=lambda place: _file(items[place]))]
    return sorted(made, key=lambda group: -max(_timeout(items[place]) for place in group))


def _file(item: pytest.Item) -> str:
    mark = item.get_closest_marker("together")
    return f"@{mark.args[0]}" if mark else item.nodeid.partition("::")[0]


def _folders(config: pytest.Config) -> Any:
    made: Any = config
    return made._tmp_path_factory


def _named(item: pytest.Item) -> tuple[str, Any]:
    return item.nodeid, item.location


def _timeout(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return mark.args[0] if mark and mark.args else 0


# ------------------------------------------------------------------------------------------------------- the parent


@dataclass
class _Child:
    """A forked process: the pipe to it, the tests that it was given and did not finish, the one that it is at."""

    pid: int
    pipe: Connection
    left: Tests = field(default_factory=list[int])


class _Parent:
    """Hands out files, and reports what comes back."""

    def __init__(self, session: pytest.Session) -> None:
        self.session, self.config = session, session.config
        self.todo = files(session.items)
        self.children: list[_Child] = []

    def run(self, count: int) -> None:
        with shared() if are_used_by(self.session.items) else nullcontext():
            self.fork_and_listen(count)

    def fork_and_listen(self, count: int) -> None:
        template()  # one for all: it imports nothing until a test asks for a program
        _folders(self.config).getbasetemp()  # made here, it is removed by later runs
        try:
            for _ in range(min(count, len(self.todo))):
                self.fork()
            while self.children:
                self.listen()
        finally:
            for child in self.children:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)

    def fork(self) -> None:
        here, there = Pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ends_with(parent)
            here.close()
            for child in self.children:
                child.pipe.close()
            _live(self.session, there)
        there.close()
        child = _Child(pid, here)
        self.children.append(child)
        self.give(child)

    def give(self, child: _Child) -> None:
        tests = self.todo.pop(0) if self.todo else []
        child.left += tests
        with suppress(BrokenPipeError):  # it died; `listen` finds out
            child.pipe.send(tests)

    def listen(self) -> None:
        ready = wait([child.pipe for child in self.children])
        for child in [child for child in self.children if child.pipe in ready]:
            what, said = _heard(child.pipe)
            getattr(self, what)(child, said)
            if self.session.shouldfail:
                raise self.session.Failed(self.session.shouldfail)
            if self.session.shouldstop:
                raise self.session.Interrupted(self.session.shouldstop)

    # What a child says.

    def gone(self, child: _Child, _said: None) -> None:
        self.children.remove(child)
        child.pipe.close()
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        if child.left or code:
            name, location = _named(self.session.items[child.left[0]]) if child.left else ("after a test", ("", 0, ""))
            text = f"the process that ran this test ended with exit code {code}"
            report = pytest.TestReport(name, location, {}, "failed", text, "call")
            self.config.hook.pytest_runtest_logreport(report=report)
            self.todo[:0] = [child.left[1:]] if child.left[1:] else []
        if self.todo:
            self.fork()

    def more(self, child: _Child, _said: None) -> None:
        self.give(child)

    def ran(self, child: _Child, said: tuple[int, list[dict[str, Any]]]) -> None:
        """A test was run: what pytest said there of its steps it says here, in one message for all of them."""
        place, reports = said
        child.left.remove(place)
        name, location = _named(self.session.items[place])
        hook = self.config.hook
        hook.pytest_runtest_logstart(nodeid=name, location=location)
        for each in reports:
            report = hook.pytest_report_from_serializable(config=self.config, data=each)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=name, location=location)

    def warning(self, _child: _Child, said: tuple[str, str, int, str, str]) -> None:
        text, path, line, when, test = said
        message = warnings.WarningMessage(Warning(text), Warning, path, line)
        self.config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": message, "when": when, "nodeid": test, "location": None}
        )


def _heard(pipe: Connection) -> tuple[str, Any]:
    """Read what a child says; who acts on it is outside of any `except`, since a fork inherits the error at hand."""
    try:
        return pipe.recv()
    except (EOFError, ConnectionResetError):
        return "gone", None


# -------------------------------------------------------------------------------------------------------- the child


class _Teller:
    """Sends the parent what pytest reports here."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self.config, self.pipe = config, pipe
        self.reports: list[Any] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what is read of a test: of a step around it that passed in no time, nothing but a JUnit file reads."""
        around = report.when != "call" and report.passed and report.duration < 0.01 and not report.sections
        if around and self.config.getoption("xmlpath", None) is None:
            return
        self.reports.append(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def ran(self, place: int) -> None:
        """Send what was reported of a test, which is over now."""
        self.pipe.send(("ran", (place, self.reports)))
        self.reports = []

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        if when != "runtest":  # it was recorded before the fork
            return
        each = warning_message
        text = f"{each.category.__name__}: {each.message}"
        self.pipe.send(("warning", (text, each.filename, each.lineno, when, nodeid)))


def _live(session: pytest.Session, pipe: Connection) -> None:
    """Run what the parent gives until it gives nothing more. It never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        random.seed()
        manager = session.config.pluginmanager
        for reporter in ("terminalreporter", "lfplugin", "nfplugin", "stepwiseplugin", "junitxml"):
            if manager.hasplugin(reporter):
                manager.unregister(name=reporter)
        # A test that hangs writes where it stands to the terminal.
        config: Any = session.config
        config.get_terminal_writer = lambda: TerminalWriter(sys.stderr)
        folders = _folders(session.config)
        folders._basetemp = folders.getbasetemp() / f"fork-{os.getpid()}"
        folders._basetemp.mkdir(mode=0o700)
        capture: Any = manager.getplugin("capturemanager")
        capture.stop_global_capturing()  # the parent's file has one offset for all
        capture.start_global_capturing()
        teller = _Teller(session.config, pipe)
        manager.register(teller, "teller")
        _go_through(session, teller)
        code = 0
    except (EOFError, BrokenPipeError, KeyboardInterrupt):  # the parent is gone, or about to go
        code = 2
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _go_through(session: pytest.Session, teller: _Teller) -> None:
    given: Generator[int] = _given(teller.pipe)
    place = next(given, None)
    while place is not None:
        after = next(given, None)
        item = session.items[place]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None if after is None else session.items[after])
        teller.ran(place)
        place = after


def _given(pipe: Connection) -> Generator[int]:
    """Yield the tests that come; the next are asked for before the last of these is run, which must know its next."""
    while tests := pipe.recv():
        yield from tests
        pipe.send(("more", None))
