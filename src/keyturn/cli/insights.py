"""The command `keyturn insights` tells how people decide: how fast, how uniformly, and which rules would spare them.

Nothing is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import msgspec

from ..core.errors import UserError
from ..inbox.figures import Figures, InsightsReport
from ..inbox.replayed import Suggestion
from ..render.escape import escape
from .seats.base import Seat
from .seats.sitting import run_at
from .with_journal import Told, describe_journal

_MOST = 20


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--days", type=int, default=30, metavar="N", help="of the last N days (default: %(default)s)")
    parser.add_argument("--suggest", action="store_true", help="suggest rules from what was always approved")
    parser.add_argument("--tool", metavar="NAME", help="with --suggest: for this tool only")
    describe_journal(parser, server=True)


def run(arguments: argparse.Namespace) -> int:
    """Tell; return 1 where that cannot be done."""

    async def work(seat: Seat) -> Told:
        insights = seat.insights
        if arguments.suggest:
            made = await insights.suggestions(tool=arguments.tool)
            return Told(list(_suggested(made)), [{**msgspec.to_builtins(each), "says": each.says} for each in made])
        if arguments.tool is not None:
            raise UserError("--tool goes with --suggest; the figures list every tool")
        report = await insights.report(days=arguments.days)
        return Told(list(_told(report)), msgspec.to_builtins(report))

    return run_at(arguments, "insights", work)


def _told(report: InsightsReport) -> Iterator[str]:
    yield f"from {report.since} to {report.until} (UTC)"
    if report.counted_from is not None and report.counted_from > report.since:
        yield f"counted from {report.counted_from} on; earlier decisions have no counters"
    yield f"all: {_line(report.total)}"
    for name, part in (("tool", report.tools), ("person", report.people), ("kind", report.kinds)):
        yield from _part(name, part)


def _part(name: str, part: Sequence[Figures]) -> Iterator[str]:
    for each in part[:_MOST]:
        yield f"{name} {escape(each.name, keep='')}: {_line(each)}"
    if len(part) > _MOST:
        yield f"and {len(part) - _MOST} more (--json lists all)"


def _line(of: Figures) -> str:
    words = [f"{of.decided} decided"]
    rates = {
        "approved": of.approval_rate,
        "edited": of.edit_rate,
        "rejected": of.rejection_rate,
        "expired": of.expiry_rate,
        "escalated": of.escalation_rate,
    }
    words += [f"{rate:.0%} {name}" for name, rate in rates.items() if rate]
    for name, times in (("first look", of.first_look), ("decision", of.to_decide)):
        if times.median_s is not None and times.p90_s is not None:
            words.append(f"{name} after {_time(times.median_s)} (median), {_time(times.p90_s)} (p90)")
    if of.hurried:
        words.append(f"{of.hurried} of {of.read} approved too fast to have been read")
    if of.drills_passed is not None:
        words.append(f"{of.drills_passed:.0%} of {of.drills} drills passed")
    return ", ".join(words)


def _time(seconds: float) -> str:
    """Return a time in the unit that a person would say it in.

    >>> _time(1.5), _time(5_400), _time(200_000)
    ('1.5 s', '1.5 h', '2.3 d')
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _suggested(made: Sequence[Suggestion]) -> Iterator[str]:
    if not made:
        yield "no suggestions: no kind of call was approved often enough, always and without edits"
    for each in made:
        names = ", ".join(escape(name, keep="") for name in each.free)
        free = f"; not restricted to past values: {names}" if names else ""
        yield f"tool {escape(each.tool, keep='')}, agent {escape(each.agent, keep='')}: {each.says}{free}"
        for line in each.policy.splitlines():
            yield f"    {escape(line, keep='')}"
