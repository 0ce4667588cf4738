"""What the suite costs: processor time of every test, of the processes that it starts, and of all that is around them.

    python -m tests.costs                      # runs `make test`, and prints the tables
    python -m tests.costs --top 60 --tests 40 -- make test WORKERS=2

As a plugin of pytest (`-p tests.costs`) it writes one line for each test into the folder KEYTURN_COSTS. As a program it
runs a command that loads it, and adds up what every process of the tree used, orphans as well (Linux only). Nothing of
Keyturn is imported here, and no test is here.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest

FOLDER = "KEYTURN_COSTS"
COMMAND = ["make", "test", "ARGS=-p tests.costs"]
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: processes whose parent died become children of this one

# ------------------------------------------------------------------------------------------------------- the plugin


class Spent(NamedTuple):
    """Processor seconds: of this process, and of those that it started."""

    own: float
    others: float

    def since(self, before: Spent) -> Spent:
        return Spent(self.own - before.own, self.others - before.others)


def spent() -> Spent:
    """Read what this process used until now, and what its descendants used, those still there included."""
    times = os.times()
    ended = times.children_user + times.children_system
    children = _children("self")
    _SERVERS.update({server: _of_process(server) for server in filter(None, map(_postgres_of, children))})
    return Spent(time.process_time(), ended + sum(map(_of_process, children)) + sum(_SERVERS.values()))


#: What each server of PostgreSQL used so far: nobody's child, and beside a child of ours that ends it.
_SERVERS: dict[int, float] = {}


def _postgres_of(guard: int) -> int | None:
    """Return the server that this process will end (`keyturn.testing.postgres`), if it is such a guard."""
    try:
        with open(f"/proc/{guard}/cmdline", "rb", 0) as file:
            words = file.read().decode().split("\0")
        data = words[words.index("guard") + 2]
        return int(Path(data, "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _children(pid: int | str) -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # it ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb", 0) as file:
                found += map(int, file.read().split())
    return found


def _of_process(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", "rb", 0) as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICK + sum(map(_of_process, _children(pid)))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def note(what: str, cost: Spent) -> None:
    """Write down what something beside the tests used, where costs are recorded."""
    folder = os.environ.get(FOLDER)
    if folder and Path(folder).is_dir():
        _Recorder(folder).write(what, cost)


def note_servers() -> None:
    """Write down what the servers of PostgreSQL used that this process started."""
    spent()
    note("@ PostgreSQL that all processes share", Spent(0.0, sum(_SERVERS.values())))


class _Recorder:
    """Writes a line for each test, and for what one process did around them."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.ended = (0, Spent(0.0, 0.0))  # the process, and what it had used when its last test was over

    def write(self, what: str, cost: Spent) -> None:
        with (self.folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps([what, *cost, _resident()]) + "\n")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        self.write("@ start", spent())
        before = spent()
        result = yield
        self.write("@ collect", spent().since(before))
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = spent()
        process, ended = self.ended
        if process == os.getpid():
            self.write("@ between tests", before.since(ended))
        result = yield
        after = spent()
        self.write(item.nodeid, after.since(before))
        self.ended = (os.getpid(), after)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        before = spent().own
        result = yield
        if self.ended[0] != os.getpid():
            self.write("@ the parent: it hands out and reports", Spent(spent().own - before, 0.0))
        return result


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get(FOLDER)
    if folder:
        config.pluginmanager.register(_Recorder(folder), "costs of tests")


# ------------------------------------------------------------------------------------------------------ the program


class Row(NamedTuple):
    """What one test, or all tests of one kind, came to."""

    name: str
    count: int
    own: float
    others: float

    @property
    def both(self) -> float:
        return self.own + self.others


def run(command: list[str], folder: str) -> tuple[int, float, float]:
    """Run a command; return its exit code, the processor seconds of its whole tree, and the seconds that passed."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    child = subprocess.Popen(command, env={**os.environ, FOLDER: folder}, stdout=sys.stderr)
    code = 1
    while True:  # the command, and what it left behind; a test may look whether that is gone
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        if pid == child.pid:
            code = child.returncode = os.waitstatus_to_exitcode(status)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return code, used.ru_utime + used.ru_stime, time.monotonic() - began


def lines(folder: str) -> list[list[tuple[str, float, float, int]]]:
    """Read every line that each process of a run wrote."""
    return [[tuple(json.loads(line)) for line in path.open()] for path in sorted(Path(folder).iterdir())]


def added(rows: Iterable[tuple[str, float, float]]) -> list[Row]:
    """Add up what has the same name, dearest first."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for name, own, others in rows:
        entry = sums[name]
        entry[0], entry[1], entry[2] = entry[0] + 1, entry[1] + own, entry[2] + others
    rows_added = [Row(name, int(count), own, others) for name, (count, own, others) in sums.items()]
    return sorted(rows_added, key=lambda row: -row.both)


def table(title: str, rows: list[Row], first: int) -> str:
    """Write a table of the dearest."""
    head = [f"{title} (the first {min(first, len(rows))} of {len(rows)}; processor seconds)", ""]
    head += ["|   all |   own | started | tests | |", "| ----: | ----: | ------: | ----: | - |"]
    each = [
        f"| {row.both:5.1f} | {row.own:5.1f} | {row.others:7.1f} | {row.count:5} | {row.name} |" for row in rows[:first]
    ]
    return "\n".join([*head, *each, ""])


def _file(test: str) -> str:
    return test.partition("::")[0]


def _room(test: str) -> str:
    parts = _file(test).split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else "tests/*.py"


def report(folder: str, top: int, tests: int) -> str:
    """Write the tables of a run."""
    processes = lines(folder)
    read = list(chain.from_iterable(processes))
    each = [(name, own, others) for name, own, others, _size in read if not name.startswith("@")]
    around = [(name, own, others) for name, own, others, _size in read if name.startswith("@")]
    sizes = sorted((written[-1][3] >> 20 for written in processes), reverse=True)
    return "\n".join(
        [
            f"processes of pytest at their end, in MiB: {sizes}\n",
            table("Around the tests", added(around), 30),
            table("Rooms", added((_room(name), own, others) for name, own, others in each), 99),
            table("Files", added((_file(name), own, others) for name, own, others in each), top),
            table("Tests", added(each), tests),
        ]
    )


def main() -> int:
    """Run the command, and print what it cost."""
    parser = argparse.ArgumentParser(prog="python -m tests.costs", description=main.__doc__)
    parser.add_argument("--top", type=int, default=60, help="how many files are listed")
    parser.add_argument("--tests", type=int, default=40, help="how many tests are listed")
    parser.add_argument("--folder", help="where the lines are kept; else they are gone afterwards")
    parser.add_argument("command", nargs="*", default=COMMAND)
    asked: Any = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        folder = asked.folder or passing
        Path(folder).mkdir(exist_ok=True)
        code, used, passed = run(asked.command, folder)
        print(f"{' '.join(asked.command)}: exit code {code}, {used:.0f} s of processor time in {passed:.0f} s\n")
        print(report(folder, asked.top, asked.tests))
    return code


if __name__ == "__main__":
    sys.exit(main())
