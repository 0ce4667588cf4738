"""Programs published for the OpenAI Agents SDK, run with `agents` replaced by `keyturn` and nothing else.

    python -m trials.published EXAMPLES [--only tools/shell] [--there PYTHON] [--show] [--jobs 2]

EXAMPLES is the folder `examples` of an unpacked sdist. It is copied, `keyturn migrate --write` changes the copy, and
each program runs in a process of its own, with a robot for a model (`trials/robot`). `--there` runs the programs as
they were with a Python that has openai-agents, before the same robot, and compares what the two print.
A program that fails is changed as `keyturn migrate` advised and runs once more: what runs then differs on purpose.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import partial
from pathlib import Path

from .robot.service import RobotService
from .robot.stand_ins import write_stand_ins
from .table import grid

RAN, DIFFERS, NEEDS, FAILED = "ran", "differs on purpose", "needs what is not here", "failed"
SECONDS = 60

# Folders of what is not built here, or needs a microphone.
LEFT_OUT = {
    "realtime": "realtime sessions are not built yet",
    "live": "realtime audio",
    "voice": "voice",
    "sandbox": "there are no sandbox agents",
}
# What other programs of theirs start, and what starts all of them.
PARTS = {"server.py", "mcp_server.py", "application/app.py", "run_examples.py"}
FLAGS = ("--stream", "--require-approval")

# What `keyturn migrate` advises, and how it is done.
REMEDIES = {"needs_approval=False": (r"\b((?:Local)?ShellTool|ApplyPatchTool)\(", r"\1(needs_approval=False, ")}
TYPES = "isinstance("

_SENTENCE = re.compile(r"keyturn has no .*|.*on purpose.*")
_PACKAGE = re.compile(r"No module named '([\w.]+)'")
_UNREACHABLE = re.compile(
    r"Name or service not known|name resolution|No address associated|Connection refused|ConnectError|"
    r"cannot be reached|All connection attempts failed|ProxyError|Network is unreachable"
)
_NAMED = re.compile(r"(\w+) is not installed|([A-Z_]{4,}) is not set|KeyError: '([A-Z_]+)'")


@dataclass(frozen=True)
class Program:
    """Names one program, and the flag that it is given."""

    path: Path
    flag: str = ""

    @property
    def name(self) -> str:
        """The path below the folder, and the flag."""
        return f"{self.path.with_suffix('').as_posix()} {self.flag}".strip()


@dataclass(frozen=True)
class Outcome:
    """Holds what a program printed, and how it ended; code None is one that was stopped."""

    code: int | None
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line that says something."""
        lines = [line.strip() for line in (self.err.strip() or self.out.strip()).splitlines() if line.strip()]
        return "still running: stopped" if self.code is None else lines[-1] if lines else "nothing was printed"


@dataclass(frozen=True)
class Report:
    """Says of one program what became of it."""

    program: Program
    status: str
    why: str = ""
    differences: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Place:
    """Holds where programs run: a folder with a copy of them, a Python, and what is on its path."""

    root: Path
    python: str
    path: str


def programs(examples: Path, only: str) -> Iterator[Program]:
    """Yield what can be started below a folder, by name."""
    for file in sorted(examples.rglob("*.py")):
        path = file.relative_to(examples)
        if path.parts[0] in LEFT_OUT or path.name in PARTS or only not in path.as_posix():
            continue
        text = file.read_text(encoding="utf-8")
        if "__main__" in text:
            yield Program(path)
            yield from (Program(path, flag) for flag in FLAGS if f'"{flag}"' in text)


def copied(examples: Path, into: Path) -> Path:
    """Copy the folder, without what is left out; programs import one another as `examples...`."""
    ignored = shutil.ignore_patterns(*LEFT_OUT, "__pycache__")
    return Path(shutil.copytree(examples, into / "examples", ignore=ignored)).parent


def migrated(root: Path) -> str:
    """Change the copy as a user would, and return what the command said."""
    command = [sys.executable, "-c", "import sys; from keyturn.cli.main import main; sys.exit(main())"]
    done = subprocess.run(
        [*command, "migrate", "--write", str(root / "examples")], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"keyturn migrate: {done.stderr}")
    return done.stdout


def run(program: Program, place: Place) -> Outcome:
    """Run a program before a robot of its own, and stop it where it takes too long."""
    module = ".".join(("examples", *program.path.with_suffix("").parts))
    with RobotService() as service, _process(place, module, program.flag, service.base_url) as process:
        try:
            out, err = process.communicate("y\n" * 50, timeout=SECONDS)
            return Outcome(process.returncode, out, err)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Outcome(None, out, err)


@contextmanager
def _process(place: Place, module: str, flag: str, address: str) -> Iterator[subprocess.Popen[str]]:
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(
            [place.python, "-u", "-m", module, *([flag] if flag else [])],
            cwd=place.root,
            env=_environment(place, home, address),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        with process:
            yield process


def _environment(place: Place, home: str, address: str) -> dict[str, str]:
    given = {"OPENAI_API_KEY": "sk-robot", "OPENAI_BASE_URL": address}
    theirs = {"EXAMPLE_API_KEY": "sk-robot", "EXAMPLE_BASE_URL": address, "EXAMPLE_MODEL_NAME": "robot"}
    theirs["OPENROUTER_API_KEY"] = "sk-robot"
    switches = {"EXAMPLES_INTERACTIVE_MODE": "auto", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    path = f"{place.path}{os.pathsep}{os.environ.get('PATH', '')}"
    python = {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each.endswith("src"))}
    return {**given, **theirs, **switches, **python, "PATH": path, "HOME": home, "LANG": "C.UTF-8", "COLUMNS": "120"}


def judged(program: Program, done: Outcome, there: Outcome | None, notes: list[str]) -> Report:
    """Say what became of a program; where it ran there as well, what it printed is compared."""
    differences = [] if there is None else compared(there, done)
    said = _SENTENCE.findall(f"{done.out}\n{done.err}")
    if said:
        return Report(program, DIFFERS, said[-1].strip(), differences)
    if done.code == 0:
        return Report(program, RAN, "", differences)
    if "GuardrailTripwireTriggered" in done.last:
        return Report(program, RAN, "a guardrail of its own stopped it", differences)
    if need := _needed(done):
        return Report(program, NEEDS, need)
    if there is not None and there.code != 0:
        return Report(program, NEEDS, f"fails there as well: {there.last}", differences)
    if notes:
        return Report(program, DIFFERS, f"keyturn migrate says: {notes[0]}", differences)
    return Report(program, FAILED, done.last, differences)


def _needed(done: Outcome) -> str:
    text = done.err or done.out
    if package := _PACKAGE.search(done.last):
        return f"the package {package[1]}"
    if _UNREACHABLE.search(text):
        return "the network"
    if named := _NAMED.search(done.last):
        return next(each for each in named.groups() if each)
    return ""


def compared(there: Outcome, here: Outcome) -> list[str]:
    """Return the lines that differ in their shape; ids, numbers, paths and times are no difference."""
    lines = [f"exit code {there.code}", *_shapes(there.out)], [f"exit code {here.code}", *_shapes(here.out)]
    told = list(unified_diff(*lines, "there", "here", n=0, lineterm=""))[2:]
    return [line for line in told if not line.startswith("@@")]


def _shapes(text: str) -> list[str]:
    text = re.sub(r"/tmp/\S+|https?://127\.\S+", "<place>", text)
    text = re.sub(r"\b(?:[a-z]+_)?[0-9a-f]{8,}[0-9a-f-]*\b|\b0x[0-9a-f]+|\d+(?:\.\d+)*", "#", text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def noted(said: str) -> dict[str, list[str]]:
    """Read what `keyturn migrate` listed: the sentences, by the file that each was said of."""
    found: dict[str, list[str]] = {}
    sentence = ""
    for line in said.partition("To look at:\n")[2].splitlines():
        if line.startswith("- "):
            sentence = line[2:]
        elif place := re.search(r"/examples/(\S+\.py)", line):
            found.setdefault(place[1], []).append(sentence)
    return {path: list(dict.fromkeys(sentences)) for path, sentences in found.items()}


def advised(program: Program, place: Place, notes: list[str]) -> list[str]:
    """Return the sentences of `keyturn migrate` that say why a program failed.

    A sentence with a remedy counts if the program runs with it.
    """
    for note in notes:
        for word, (pattern, changed) in REMEDIES.items():
            file = place.root / "examples" / program.path
            before = file.read_text(encoding="utf-8")
            if word in note and "needs_approval=" not in before:
                file.write_text(re.sub(pattern, changed, before), encoding="utf-8")
                if run(program, place).code == 0:
                    return [note]
                file.write_text(before, encoding="utf-8")
    return [note for note in notes if note.startswith(TYPES)]


def tried(program: Program, here: Place, there: Place | None, notes: dict[str, list[str]]) -> Report:
    """Run one program, here and if asked there, and say so at once."""
    done = run(program, here)
    said = notes.get(program.path.as_posix(), [])
    if done.code != 0:
        said = advised(program, here, said)
    other = None if there is None else run(program, there)
    report = judged(program, done, other, said)
    print(f"{report.status:24} {program.name:60} {report.why[:200]}", flush=True)
    return report


def summary(reports: list[Report]) -> str:
    """Count the programs by folder and outcome."""
    statuses = (RAN, DIFFERS, NEEDS, FAILED)
    rows: dict[str, Counter[str]] = {}
    for report in reports:
        rows.setdefault(report.program.path.parts[0], Counter())[report.status] += 1
    total = sum(rows.values(), Counter[str]())
    lines = [[name, *(str(row[status]) for status in statuses)] for name, row in [*rows.items(), ("all", total)]]
    left = [f"not run: {name} ({why})" for name, why in LEFT_OUT.items()]
    return "\n".join(["", grid(["folder", *statuses], lines), "", *left])


def main(given: list[str] | None = None) -> int:
    """Run the programs and report; 1 where one failed."""
    parser = argparse.ArgumentParser(prog="trials.published", description=__doc__)
    parser.add_argument("examples", type=Path)
    parser.add_argument("--only", default="", help="programs whose path has this in it")
    parser.add_argument("--there", metavar="PYTHON", default="", help="a Python with openai-agents, to compare with")
    parser.add_argument("--show", action="store_true", help="show the lines that differ")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        stand_ins = str(write_stand_ins(place / "bin"))
        here = Place(copied(asked.examples, place / "here"), sys.executable, stand_ins)
        there = Place(copied(asked.examples, place / "there"), asked.there, stand_ins) if asked.there else None
        notes = noted(migrated(here.root))
        with ThreadPoolExecutor(asked.jobs) as pool:
            each = partial(tried, here=here, there=there, notes=notes)
            reports = list(pool.map(each, programs(asked.examples, asked.only)))
    for report in reports if asked.show else []:
        if report.differences:
            print(f"\n{report.program.name} ({report.status})", *report.differences, sep="\n  ")
    print(summary(reports))
    return 1 if any(report.status == FAILED for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
