"""The command `keyturn policy`: check a policy's file, try it on past calls, list what one in shadow mode said.

`test` and `shadow` exit with 0 if nothing would change, 1 if something would, and 2 if the file or the journal cannot
be used; `check` with 0 or 2. Nothing is written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..core.errors import KeyturnError
from ..core.policy import milliseconds
from ..inbox.replay import Replayed, Unread, replay
from ..journal import open_journal
from ..policies.rules import Policy
from ..render.escape import escape
from .printing import must_be_there, print_labelled, print_row

NOTHING = 0
SOMETHING = 1
UNUSABLE = 2
_WIDEST = 200
_WORDS = {"allow": "allowed", "ask": "asked", "deny": "denied", "unknown": "unknown"}


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    check = what.add_parser("check", help="say whether a policy's file is right, and where it is not")
    check.add_argument("file", metavar="FILE", help="the policy, a TOML file")
    test = what.add_parser("test", help="replay past calls of a journal against a policy, and show what would change")
    test.add_argument("file", metavar="FILE", help="the policy, a TOML file")
    shadow = what.add_parser("shadow", help="list what a policy in shadow mode would have said of past calls")
    for each in (test, shadow):
        each.add_argument("--journal", required=True, metavar="URL", help="the journal, such as sqlite:///runs.db")
        each.add_argument("--since", metavar="TIME", help="only calls of the last 7d, 12h, ... (default: all)")
        each.add_argument("--examples", type=int, default=3, metavar="N", help="of each change (default: %(default)s)")
        each.add_argument("--tenant", default="default", metavar="NAME", help="whose runs (default: %(default)s)")
        each.add_argument("--json", action="store_true", help="one JSON object in place of text")
    parser.epilog = "exit codes: 0 nothing would change, 1 something would, 2 the file or the journal cannot be used"


def run(arguments: argparse.Namespace) -> int:
    """Do one of the three."""
    try:
        policy = None if arguments.what == "shadow" else Policy.from_toml(Path(arguments.file))
        if arguments.what == "check":
            assert policy is not None
            print_row(f"{escape(arguments.file)}: {len(policy.rules)} rules", sys.stdout)
            return NOTHING
        found = asyncio.run(_replayed(arguments, policy))
    except KeyturnError as error:
        print_labelled("keyturn policy", str(error))
        return UNUSABLE
    for row in [json.dumps(found.as_data())] if arguments.json else found.as_rows():
        print_row(row, sys.stdout)
    return SOMETHING if found.changed else NOTHING


@dataclass
class _Found:
    """Counts what was found, with the first few examples of each change."""

    examples: int
    calls: int = 0
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    shown: dict[tuple[str, str, str], list[Replayed]] = field(
        default_factory=dict[tuple[str, str, str], list[Replayed]]
    )
    unread: list[Unread] = field(default_factory=list[Unread])

    def add(self, each: Replayed | Unread) -> None:
        if isinstance(each, Unread):
            self.unread.append(each)
            return
        key = (each.tool, each.was, each.would)
        self.calls += 1
        self.counts[key] += 1
        if each.was != each.would and self.counts[key] <= self.examples:
            self.shown.setdefault(key, []).append(each)

    @property
    def changed(self) -> bool:
        return any(_changes(was, would) for _tool, was, would in self.counts)

    def as_data(self) -> dict[str, Any]:
        changes = [
            {"tool": tool, "was": was, "would": would, "calls": count, "changed": _changes(was, would),
             "examples": [msgspec.to_builtins(each) for each in self.shown.get((tool, was, would), [])]}
            for (tool, was, would), count in sorted(self.counts.items())
        ]  # fmt: skip
        unread = [msgspec.to_builtins(each) for each in self.unread]
        return {"calls": self.calls, "changed": self.changed, "verdicts": changes, "unread": unread}

    def as_rows(self) -> list[str]:
        rows = [f"{self.calls} calls"]
        for (tool, was, would), count in sorted(self.counts.items()):
            same = was == would
            then = f"{_WORDS[was]}, as before" if same else f"was {_WORDS[was]}, would be {_WORDS[would]}"
            rows.append(f"{escape(tool)}: {count} {then}")
            rows += [_example(each) for each in self.shown.get((tool, was, would), [])]
        rows += [f"run {escape(each.run)} is not counted: {escape(each.why)}" for each in self.unread]
        return rows if self.changed else [*rows, "nothing would change"]


def _changes(was: str, would: str) -> bool:
    return was != would and "unknown" not in (was, would)


def _example(each: Replayed) -> str:
    given = json.dumps(each.arguments, ensure_ascii=False)
    cut = given if len(given) <= _WIDEST else f"{given[:_WIDEST]}[... {len(given)} characters]"
    why = f" ({escape(each.reason)})" if each.reason else ""
    return f"  run {escape(each.run)} call {escape(each.call)} of {escape(each.agent)}: {escape(cut)}{why}"


async def _replayed(arguments: argparse.Namespace, policy: Policy | None) -> _Found:
    must_be_there(arguments.journal)
    whole: Any = open_journal(arguments.journal)
    found = _Found(max(arguments.examples, 0))
    try:
        store = whole.of(arguments.tenant)
        since = 0 if arguments.since is None else await store.now() - milliseconds(arguments.since)
        async for each in replay(store, policy, since):
            found.add(each)
        return found
    finally:
        if hasattr(whole, "close"):
            await whole.close()
