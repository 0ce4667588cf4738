"""The command `keyturn policy`: check a policy's file, try it on past calls, list what one in shadow mode said.

`test` and `shadow` exit with 0 if nothing would change, 1 if something would, and 2 if the file or the journal cannot
be used; `check` with 0 or 2. Nothing is written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..core.errors import KeyturnError
from ..inbox.replayed import Replayed
from ..inbox.rule_lint import complaints_of
from ..policies.lint import refuse
from ..policies.rules import Policy
from ..policies.toml_lines import text_of
from ..render.escape import escape
from ..render.plural import plural
from ..wire.records import ReplayCount, ReplayReport
from .loading import found
from .printing import print_labelled, print_row
from .seats.sitting import seated
from .with_journal import describe_app, describe_journal

NOTHING = 0
SOMETHING = 1
UNUSABLE = 2
_WIDEST = 200
_WORDS = {"allow": "allowed", "ask": "asked", "deny": "denied", "unknown": "unknown"}


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    check = what.add_parser("check", help="validate a policy file")
    check.add_argument("file", metavar="FILE", help="the policy, a TOML file")
    describe_app(check, "the rules are checked against its tools and agents")
    test = what.add_parser("test", help="replay past calls of a journal against a policy, and show what would change")
    test.add_argument("file", metavar="FILE", help="the policy, a TOML file")
    describe_app(test, "the rules are checked against its tools and agents first")
    shadow = what.add_parser("shadow", help="show what a policy in shadow mode would have decided on past calls")
    for each in (test, shadow):
        each.add_argument("--since", metavar="TIME", help="only calls of the last 7d, 12h, ... (default: all)")
        each.add_argument("--examples", type=int, default=3, metavar="N", help="of each change (default: %(default)s)")
        describe_journal(each, server=True)
    parser.epilog = "exit codes: 0 nothing would change, 1 something would, 2 the file or the journal cannot be used"


def run(arguments: argparse.Namespace) -> int:
    """Do one of the three."""
    try:
        policy = None if arguments.what == "shadow" else _checked(arguments)
        if arguments.what == "check":
            assert policy is not None
            print_row(f"{escape(arguments.file)}: {plural(len(policy.rules), 'rule')}", sys.stdout)
            return NOTHING
        text = None if policy is None else Path(arguments.file).read_text(encoding="utf-8")
        asked = text, arguments.since, max(arguments.examples, 0)
        report: ReplayReport = asyncio.run(seated(arguments, lambda seat: seat.policies.replayed(*asked)))
    except KeyturnError as error:
        print_labelled("keyturn policy", str(error))
        return UNUSABLE
    for row in [json.dumps(_data(report))] if arguments.json else _rows(report):
        print_row(row, sys.stdout)
    return SOMETHING if any(map(_changed, report.counts)) else NOTHING


def _checked(arguments: argparse.Namespace) -> Policy:
    """Read the file, and hold its rules against the app that is named: what may match nothing is only shown."""
    if arguments.app is None:
        return Policy.from_toml(Path(arguments.file))
    agents = found(arguments.app).agents

    def check(policy: Policy) -> None:
        complaints = complaints_of(agents, policy)
        refuse(complaints)
        for each in complaints:
            print_labelled("warning", str(each))

    return Policy.of_text(*text_of(Path(arguments.file)), check)


def _changed(count: ReplayCount) -> bool:
    return _changes(count.was, count.would)


def _data(found: ReplayReport) -> dict[str, Any]:
    changes = [
        {"tool": each.tool, "was": each.was, "would": each.would, "calls": each.calls, "changed": _changed(each),
         "examples": [msgspec.to_builtins(example) for example in _shown(each)]}
        for each in found.counts
    ]  # fmt: skip
    unread = [msgspec.to_builtins(each) for each in found.unread]
    changed = any(map(_changed, found.counts))
    return {"calls": found.calls, "changed": changed, "verdicts": changes, "unread": unread, "whole": found.whole}


def _shown(count: ReplayCount) -> list[Replayed]:
    return [] if count.was == count.would else count.examples


def _rows(found: ReplayReport) -> Iterator[str]:
    yield plural(found.calls, "call")
    for each in found.counts:
        same = each.was == each.would
        then = f"{_WORDS[each.was]}, as before" if same else f"was {_WORDS[each.was]}, would be {_WORDS[each.would]}"
        yield f"{escape(each.tool, keep='')}: {each.calls} {then}"
        yield from map(_example, _shown(each))
    for one in found.unread:
        yield f"run {escape(one.run, keep='')} is not counted: {escape(one.why, keep='')}"
    if not found.whole:
        yield "incomplete: the server timed out; use --since 7d to replay fewer calls"
    if not any(map(_changed, found.counts)):
        yield "nothing would change"


def _changes(was: str, would: str) -> bool:
    return was != would and "unknown" not in (was, would)


def _example(each: Replayed) -> str:
    given = json.dumps(each.arguments, ensure_ascii=False)
    cut = given if len(given) <= _WIDEST else f"{given[:_WIDEST]}[... {len(given)} characters]"
    why = f" ({escape(each.reason)})" if each.reason else ""
    return f"  run {escape(each.run)} call {escape(each.call)} of {escape(each.agent)}: {escape(cut)}{why}"
