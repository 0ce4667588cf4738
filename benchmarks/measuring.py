"""Runs the measurements: each in a process of its own, the subjects in turn, so that a noisy minute hits them alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median

from .rows import Row
from .subjects import SUBJECTS, Subject

ROOT = Path(__file__).resolve().parent.parent
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
DEEP_PYTHON = Path(os.environ.get("DEEP_PYTHON") or ROOT / ".venv-deep" / "bin" / "python")
ENOUGH_SECONDS = 5.0  # a measurement that took this long in all is not repeated
TIMEOUT_SECONDS = 400.0

Job = tuple[str, tuple[tuple[str, int], ...]]


def job_of(row: Row) -> Job:
    """What must be run for this row; rows that share it share its process."""
    return row.workload, tuple(sorted(row.params.items()))


@dataclass
class Measured:
    """All samples by subject, job and figure, and what could not be measured."""

    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    samples: dict[tuple[str, Job], dict[str, list[float]]] = field(default_factory=dict)

    def values(self, subject: str, row: Row) -> list[float]:
        """The samples of one cell of the table."""
        return self.samples.get((subject, job_of(row)), {}).get(row.figure, [])

    def median(self, subject: str, row: Row) -> float | None:
        """The middle one, if there is any."""
        values = self.values(subject, row)
        return median(values) if values else None


class Failed(Exception):
    """A measurement ended without a figure."""


def python_of(subject: Subject) -> str:
    """The Python that has a subject's library."""
    if subject.deep and not DEEP_PYTHON.exists():
        raise Failed(
            f"say which Python has it, or make one: make deep-peers (there is no {DEEP_PYTHON.name} of theirs)"
        )
    if subject.deep:
        return str(DEEP_PYTHON)
    return str(PEERS_PYTHON) if subject.peer and PEERS_PYTHON.exists() else sys.executable


def one(subject: str, workload: str, params: Iterable[tuple[str, int]] = ()) -> dict[str, float | str]:
    """Run one measurement in a fresh process."""
    command = [python_of(SUBJECTS[subject]), "-m", "benchmarks.one", subject, workload]
    command += [f"{name}={value}" for name, value in params]
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # else every import of an editable package compiles it, and of others not
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {TIMEOUT_SECONDS:.0f} s") from None
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ["no message"])[-1])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def probe(measured: Measured, subjects: Iterable[str]) -> list[str]:
    """Those of the subjects whose library is here."""
    for subject in subjects:
        try:
            answer = one(subject, "probe")
        except Failed as failed:
            answer = {"missing": str(failed)}
        if "missing" in answer:
            measured.missing[subject] = str(answer["missing"])
        else:
            measured.versions[subject] = str(answer["version"])
    return [subject for subject in subjects if subject in measured.versions]


def run(rows: list[Row], subjects: list[str], repeat: int, say: Callable[[str], None]) -> Measured:
    """Measure every row of every subject `repeat` times, interleaved."""
    measured = Measured()
    here = probe(measured, [name for name in subjects if any(row.measures(SUBJECTS[name]) for row in rows)])
    jobs = {job_of(row): row for row in rows}
    spent: dict[tuple[str, Job], float] = defaultdict(float)
    for turn, job, subject in product(range(repeat), jobs, here):
        if jobs[job].measures(SUBJECTS[subject]) and spent[subject, job] < ENOUGH_SECONDS:
            say(f"{turn + 1}/{repeat} {job[0]} {dict(job[1]) or ''} {subject}")
            spent[subject, job] += measure(measured, subject, job)
    return measured


def measure(measured: Measured, subject: str, job: Job) -> float:
    """One sample of one cell; returns the seconds it took, which are endless for one that failed."""
    start = time.monotonic()
    try:
        figures = one(subject, *job)
    except Failed as failed:
        measured.failures[f"{subject}, {job[0]} {dict(job[1])}"] = str(failed)
        return ENOUGH_SECONDS
    if "missing" in figures:  # the library has no such thing: one dash says so
        return ENOUGH_SECONDS
    samples = measured.samples.setdefault((subject, job), {})
    for name, value in figures.items():
        samples.setdefault(name, []).append(float(value))
    return time.monotonic() - start
