"""The command `keyturn engine` opens the engine that hands runs to workers, to check it or to delete what is done.

Neither wakes anything, and no run depends on what they find: the journal says which runs are due.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from ..core.durations import milliseconds
from ..core.errors import KeyturnError, StorageError
from ..engine.logger import failure_words
from ..engine.reconciler import KEPT_MS, MOVED
from ..fleet import JOURNAL, engine_named
from ..fleet.base import Engine
from ..render.escape import escape
from ..render.plural import plural
from .loading import describe_engine, engine_asked_for
from .with_journal import Told, describe_journal_url, describe_json, describe_url, run_command, url_of

_SECONDS = 15.0  # how long an engine may take to open and to answer
_MOST_ROUNDS = 1_000  # a thousand rows are deleted in each


class EngineReport(NamedTuple):
    """Says of an engine how it is.

    `unusable` says that it cannot be opened or does not answer, `late` that it holds wakes for longer than a reconciler
    leaves them to it; `journal` is the one that needs nothing.
    """

    name: str
    state: Literal["journal", "answers", "late", "unusable"] = "journal"
    backlog: int | None = None
    oldest_seconds: float | None = None
    error: str = ""

    @property
    def row(self) -> str:
        """Return it as a row of the terminal."""
        return f"engine {escape(self.name, keep='')}: {self._said}"

    @property
    def _said(self) -> str:
        if self.state == JOURNAL:
            return "workers ask the journal, and nothing else is needed"
        if self.state == "unusable":
            return f"cannot be used: {escape(self.error, keep='')}"
        if self.backlog is None:
            return "answers; it does not report how many wakes it holds"
        if not self.backlog:
            return "answers, and holds no wakes"
        held = f"holds {plural(self.backlog, 'wake')}, the oldest for {self.oldest_seconds or 0.0:.0f} s"
        if self.state == "late":
            return f"{held}: no worker of this engine is running, or all their slots are in use"
        return f"answers, and {held}"


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    what = parser.add_subparsers(dest="what", required=True, metavar="check | tidy")
    check = what.add_parser("check", help="open the engine, and show how many wakes it holds; 1 if it does not deliver")
    tidy = what.add_parser("tidy", help="delete wakes that are done, and cancel those of processes that died")
    for each in (check, tidy):
        describe_url(each)
        describe_journal_url(each)
        describe_engine(each, "KEYTURN_ENGINE, else journal")
        describe_json(each)
    tidy.add_argument(
        "--older-than", default=f"{KEPT_MS // 3_600_000}h", metavar="TIME", help="since then (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Check or tidy; return 1 where the engine cannot be used, or does not deliver."""
    return run_command(
        arguments, "engine", lambda: _checked(arguments) if arguments.what == "check" else _tidied(arguments)
    )


async def _checked(arguments: argparse.Namespace) -> Told:
    report = await engine_report(arguments, url_of(arguments))
    return Told([report.row], report._asdict(), 1 if report.state in ("late", "unusable") else 0)


async def _tidied(arguments: argparse.Namespace) -> Told:
    before = int(time.time() * 1_000) - milliseconds(arguments.older_than)
    name, url = engine_asked_for(arguments)
    engine = engine_named(name, url_of(arguments), url)
    deleted = 0
    if engine is not None:
        with _errors_of(name):
            deleted = await _deleted(engine, before)
    row = f"engine {escape(name, keep='')}: deleted {plural(deleted, 'wake')}"
    return Told([row], {"name": name, "deleted": deleted})


async def _deleted(engine: Engine, before: int) -> int:
    """Delete what was done before a time, as long as there is more of it; return how much that was."""
    total = 0
    async with engine.open(None):
        for _ in range(_MOST_ROUNDS):
            count = await engine.tidy(before)
            total += count
            if not count:
                break
    return total


async def engine_report(arguments: argparse.Namespace, journal: str) -> EngineReport:
    """Return how the engine is that a command, or else the environment, names for a journal."""
    name, url = engine_asked_for(arguments)
    try:
        engine = engine_named(name, journal, url)
        if engine is None:
            return EngineReport(name)
        with _errors_of(name):
            async with asyncio.timeout(_SECONDS), engine.open(None):
                health = await engine.health()
    except KeyturnError as error:
        return EngineReport(name, "unusable", error=str(error))
    if health.error is not None:
        return EngineReport(name, "unusable", error=health.error)
    late = bool(health.backlog) and (health.oldest_seconds or 0.0) * 1_000 >= MOVED
    return EngineReport(name, "late" if late else "answers", health.backlog, health.oldest_seconds)


@contextmanager
def _errors_of(name: str) -> Generator[None]:
    """Raise errors of an engine and its driver as one of ours, with the first line of what they say."""
    try:
        yield
    except KeyturnError:
        raise
    except TimeoutError:
        raise StorageError(f"the engine {name} did not answer in time") from None
    except Exception as error:
        raise StorageError(f"the engine {name} failed: {failure_words(error).partition(chr(10))[0]}") from error
