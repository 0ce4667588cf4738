"""A timeline: its pages, its lanes, and what a long log costs."""

from __future__ import annotations

import threading
import time
import urllib.request
from typing import Any

import pytest

from keyturn.core import events as ev
from keyturn.core.codec import Log
from keyturn.server.visitor import COOKIE
from keyturn.server.web import runs
from keyturn.server.web.timeline import LANES, PAGE, timeline
from tests.server.office import staffed


def long_log(lines: int) -> Log:
    """Make the log of a run to which somebody writes on and on."""
    opened: list[ev.AnyEvent] = [ev.RunStarted("run", "salt", "go", requester="cyd"), ev.FrameOpened("r", "desk", [])]
    added = [ev.InputAdded("r", [{"role": "user", "content": f"message {n}"}]) for n in range(lines - 1)]
    return Log([ev.Step(5, opened), *(ev.Step(6 + n, [each]) for n, each in enumerate(added))])


def test_a_run_of_ten_thousand_lines_pages() -> None:
    log = long_log(10_000)
    began = time.perf_counter()
    last = timeline(log)
    took = time.perf_counter() - began
    assert (last.first, last.last, last.total, len(last.lines)) == (9_901, 10_000, 10_000, PAGE)
    assert (last.before, last.after) == (9_801, 0)
    assert took < 5
    first = timeline(log, 1)
    assert (first.first, first.last, first.before, first.after) == (1, 100, 0, 101)
    assert [line.number for line in timeline(log, 9_950).lines][-1] == 10_000
    assert timeline(log, 99_999_999).lines[0].number == 10_000


def test_each_agent_at_work_has_a_lane_of_its_own_and_gives_it_back() -> None:
    started: list[ev.AnyEvent] = [ev.RunStarted("run", "salt", "go"), ev.FrameOpened("r", "desk", [])]
    steps = [ev.Step(5, started)]
    inner = [f"r/1.{n}" for n in range(8)]
    steps += [ev.Step(6, [ev.FrameOpened(name, f"desk/{name}", [])]) for name in inner]
    made = timeline(Log(steps))
    assert made.lanes == LANES  # more of them share the last
    assert [line.entries[-1].lane for line in made.lines] == [1, 2, 3, 4, 5, 6, 6, 6, 6]
    assert made.lines[1].entries[0].lanes == ("pass", "open")


def test_an_empty_log_has_no_lines() -> None:
    made = timeline(Log([]))
    assert (made.lines, made.total, made.before, made.after) == ([], 0, 0, 0)


def test_the_page_of_a_run_is_drawn_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of twenty calls of a megabyte stopped the server for a minute, at each look."""
    threads = list[int]()

    def noting(log: Log, first: int | None) -> Any:
        threads.append(threading.get_ident())
        return timeline(log, first)

    monkeypatch.setattr(runs, "timeline", noting)
    with staffed("sql") as (served, tokens, asked):

        async def loops() -> tuple[int, str]:
            row = await served.app.inbox.get(asked["sql"])
            return threading.get_ident(), row.run

        loop, run = served.does(loops())
        request = urllib.request.Request(f"{served.url}/runs/{run}", headers={"cookie": f"{COOKIE}={tokens['ada']}"})
        with urllib.request.urlopen(request) as answer:
            assert b"UPDATE accounts SET balance = balance + 411" in answer.read()
    assert threads
    assert loop not in threads
