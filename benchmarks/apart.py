"""`python -m benchmarks.apart SHAPE [REV]`: where the processor time of a piece of work goes, beside another commit.

Nothing here is timed, so that nothing depends on what else the machine does. Bytecodes, calls of Python functions and
calls of C functions are counted by hooks of the interpreter, instructions and allocations under `valgrind`, where that
is installed. Each is counted over `FEW` and over `MANY` units of work, and the difference stands: what is done once
falls out.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

from .against import ROOT, TIMEOUT_SECONDS, run, source_of
from .counting import unhurried
from .script import Script
from .subjects import SUBJECTS
from .table import grid, number, ratio
from .workloads import cycle, durable, rounds

FEW, MANY = 10, 40
HOOKED = ("bytecodes", "Python calls", "C calls")
# A function of the interpreter, or of a library, by what it is busy with; the first that fits.
GROUPS = {
    "collection of garbage": r"gc_|visit_|traverse|deduce_|subtract_refs|update_refs|move_unreachable|untrack_",
    "allocation and release": r"[mM]alloc|[fF]ree|alloc$|GC_New|GC_Del|GC_Link|GC_UnTrack|NewReference|[dD]ealloc",
    "attributes and types": r"[gG]et_?[aA]ttr|[sS]et_?[aA]ttr|Type_Lookup|name_in_mro|member_|descr_|GetMethod|Subtype",
    "bytecode and frames": r"_PyEval|_PyFrame|PyGen|gen_|PyFunction|[vV]ectorcall|FunctionResult|initialize_locals",
    "dicts and sets": r"[dD]ict|set_|unicodekeys|insert_to_empty",
    "structs and JSON": r"Struct|json_|ms_|mpack|convert_|to_builtins|scan_once|scanner",
    "tuples and lists": r"[tT]uple|[lL]ist",
    "texts and bytes": r"[uU]nicode|bytes_|Bytes|sre_|utf8|memcpy|memmove|memcmp|memset",
    "SQLite": r"sqlite3|pager|btree|vdbe|wal[A-Z]|pcache|APSW|Connection_|Cursor",
}
Counted = dict[str, dict[str, float]]


def _made(replies: list[list[str]]) -> Any:
    return SUBJECTS["keyturn"].driver()(Script(replies))


async def _turn(many: int, _: Path) -> None:
    await _made([["noop"]] * many + [[]]).start()


async def _cycle(many: int, _: Path) -> None:
    await cycle.cycles(_made([["gated"], []] * many), many)


async def _round(many: int, _: Path) -> None:
    await rounds.rounds(_made([["gated"]] * many + [[]]), many)


async def _sqlite_cycle(many: int, folder: Path) -> None:
    driver = _made([["gated"], []] * many)
    shelf = driver.shelf(folder / "runs.db")
    await cycle.cycles(driver, many)
    await shelf.close()


async def _sqlite_round(many: int, folder: Path) -> None:
    driver = _made([["gated"]] * many + [[]])
    shelf = driver.shelf(folder / "runs.db")
    await durable.rounds(driver, shelf, many)
    await shelf.close()


UNITS: dict[str, Callable[[int, Path], Awaitable[None]]] = {
    "turn": _turn,
    "cycle": _cycle,
    "round": _round,
    "sqlite-cycle": _sqlite_cycle,
    "sqlite-round": _sqlite_round,
}


def do(shape: str, many: int) -> None:
    """Do so many units of a shape."""

    async def units() -> None:
        with tempfile.TemporaryDirectory() as folder:
            await UNITS[shape](many, Path(folder))

    hurried = unhurried()  # under `valgrind` all takes some fifty times as long
    before = gc.get_threshold()
    gc.set_threshold(*before[:2], 1_000_000)  # a collection of the whole heap would fall within one count alone
    try:
        asyncio.run(units())
    finally:
        gc.set_threshold(*before)
        hurried()


class Hooks:
    """Counts by hooks of the interpreter: bytecodes and calls by function, calls of C functions by what is called."""

    def __init__(self) -> None:
        self.found = {what: collections.Counter[str]() for what in HOOKED}
        self._names: dict[object, str] = {}

    def count(self, shape: str, many: int) -> None:
        """Do the work twice: the two hooks would count one another."""
        for install, hook in ((_tracing, self._traced), (_profiling, self._profiled)):
            install(hook)
            try:
                do(shape, many)
            finally:
                install(None)

    def _name(self, frame: FrameType) -> str:
        code = frame.f_code
        if code not in self._names:
            self._names[code] = f"{code.co_filename.rpartition('/src/')[2].rpartition('/lib/')[2]}:{code.co_qualname}"
        return self._names[code]

    def _traced(self, frame: FrameType, event: str, _about: Any) -> Any:
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            self.found["Python calls"][self._name(frame)] += 1
        elif event == "opcode":
            self.found["bytecodes"][self._name(frame)] += 1
        return self._traced

    def _profiled(self, _frame: FrameType, event: str, about: Any) -> None:
        if event == "c_call":
            self.found["C calls"][getattr(about, "__qualname__", repr(about))] += 1


def _tracing(hook: Any) -> None:
    threading.settrace(hook)
    sys.settrace(hook)


def _profiling(hook: Any) -> None:
    threading.setprofile(hook)
    sys.setprofile(hook)


def hooked(shape: str) -> Counted:
    """Return what a unit costs by the hooks, in this process."""
    do(shape, 3)
    few, many = Hooks(), Hooks()
    few.count(shape, FEW)
    many.count(shape, MANY)
    return {what: _a_unit(few.found[what], many.found[what]) for what in HOOKED}


def _a_unit(few: collections.Counter[str], many: collections.Counter[str]) -> dict[str, float]:
    each = {name: (count - few[name]) / (MANY - FEW) for name, count in many.items()}
    return {name: count for name, count in each.items() if abs(count) >= 0.05}


def emulated(source: Path, shape: str) -> Counted:
    """Return the instructions and the allocations of a unit by C function; nothing where `valgrind` is missing."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return {}
    found: list[tuple[collections.Counter[str], collections.Counter[str]]] = []
    env = {**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        for many in (FEW, MANY):
            out = Path(folder) / str(many)
            command = [valgrind, "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable]
            command += ["-m", "benchmarks.apart", shape, "--do", str(many)]
            subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, timeout=3 * TIMEOUT_SECONDS)
            found.append(_read(out))
    [(few, few_calls), (many_, many_calls)] = found
    calls = _a_unit(few_calls, many_calls)
    return {
        "instructions": _a_unit(few, many_),
        "allocations": {name: calls[name] for name in ("_PyObject_Malloc", "malloc") if name in calls},
    }


def _read(out: Path) -> tuple[collections.Counter[str], collections.Counter[str]]:
    """Read what callgrind wrote: the instructions of each function itself, and how often each was called."""
    names: dict[str, str] = {}
    own, calls = collections.Counter[str](), collections.Counter[str]()
    at, called, inside = "", "", False
    for line in out.read_text(encoding="utf-8", errors="replace").splitlines():
        if named := re.match(r"(c?)fn=\((\d+)\)(?: (.*?)(?:'\d+)?)?$", line):
            name = names.setdefault(named[2], named[3] or "")
            at, called = (at, name) if named[1] else (name, called)
        elif line.startswith("calls="):
            calls[called] += int(line[6:].split()[0])
            inside = True  # the next line is the cost of what was called
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            own[at] += 0 if inside else int(line.split()[1])
            inside = False
    return own, calls


def grouped(instructions: dict[str, float]) -> dict[str, float]:
    """Sum instructions by what the functions are busy with."""
    found = dict.fromkeys([*GROUPS, "all else"], 0.0)
    for name, count in instructions.items():
        found[next((group for group, names in GROUPS.items() if re.search(names, name)), "all else")] += count
    return found


def table(shape: str, counted: list[Counted]) -> str:
    """Lay the sums out for a person: the one that is measured beside comes first, where there is one."""
    rows: list[list[str]] = []
    for what in counted[-1]:
        rows.append(_row(what, [sum(each.get(what, {}).values()) for each in counted]))
        if what == "instructions":
            groups = [grouped(each[what]) for each in counted]
            rows += [_row(f"- {name}", [group[name] for group in groups]) for name in groups[-1]]
    return grid([f"a unit of `{shape}`", *["then", "now", "times then"][-len(rows[0]) + 1 :]], rows)


def _row(name: str, sums: list[float]) -> list[str]:
    told = [name, *(number(each) for each in sums)]
    return [*told, ratio(sums[1], sums[0])] if len(sums) == 2 else told


def grown(counted: list[Counted], most: int) -> str:
    """Say by name what costs more than it did; with one commit alone, what costs most."""
    lines: list[str] = []
    for what, now in counted[-1].items():
        then = counted[0][what] if len(counted) == 2 else {}
        names = sorted(now.keys() | then.keys(), key=lambda name: then.get(name, 0) - now.get(name, 0))
        lines.append(f"\n{what}, then and now")
        lines += [f"{then.get(name, 0):11.1f} {now.get(name, 0):11.1f}  {name}" for name in names[:most]]
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Count, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.apart", description=__doc__)
    parser.add_argument("shape", choices=UNITS)
    parser.add_argument("rev", nargs="?", help="the commit to count beside")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="name the N functions that grew most, of each")
    parser.add_argument("--do", type=int, metavar="N", help="only do N units, for a process that is counted")
    parser.add_argument("--json", action="store_true", help="print what the hooks count here, for a program")
    args = parser.parse_args(argv)
    if args.do is not None:
        do(args.shape, args.do)
        return 0
    if args.json:
        print(json.dumps(hooked(args.shape)))
        return 0
    sources = [*([source_of(args.rev)[1]] if args.rev else []), ROOT / "src"]
    counted: list[Counted] = []
    for source in sources:
        by_hooks: Counted = json.loads(run(source, "benchmarks.apart", args.shape, "--json") or "{}")
        counted.append({**emulated(source, args.shape), **by_hooks})
    print(table(args.shape, counted))
    if args.most:
        print(grown(counted, args.most))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
