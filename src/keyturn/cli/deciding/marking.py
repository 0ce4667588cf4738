"""The commands that say something beside a decision: one table of words, each a method of the inbox.

`claim`, `release`, `snooze` and `unsnooze` mark a request and restrict nobody; `withdraw` withdraws one's vote on an
open request, or an approval before its call is started. A new word is a row of the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, LiteralString, NamedTuple, cast

from ...core.errors import UserError
from ...core.request import Mark
from ...inbox.personal import Details, Marking, PersonalInbox
from ...journal.rows import RequestRow
from ...presenting.asking import own_vote
from ...presenting.clock import here
from ...presenting.recorded import still_needed
from ...render.escape import escape, quote
from ..finding import SHORT, SHORTEST, find_request
from ..seats.sitting import run_with_inbox
from ..with_journal import Told, describe_journal, hinting
from .drawing import DIGEST, STATES, request_data
from .signing import sign

Words = dict[str, Any]


class MarkingVerb(NamedTuple):
    """Describes a command that marks: its options, their words, and what is told afterwards.

    `tell` gets the request before and after, and who said it.
    """

    name: LiteralString
    mark: Marking | None
    describe: Callable[[argparse.ArgumentParser], None]
    words: Callable[[argparse.Namespace], Words]
    tell: Callable[[RequestRow, RequestRow, str], str]


class MarkingCommand(NamedTuple):
    """Makes a command of a row, as `keyturn.cli.main` takes one."""

    marking: MarkingVerb

    def describe(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of this command."""
        parser.add_argument(
            "request", metavar="REQUEST", help=f"the request id, or its first {SHORTEST} or more characters"
        )
        self.marking.describe(parser)
        describe_journal(parser, people=True, server=True)

    def run(self, arguments: argparse.Namespace) -> int:
        """Record it; return 1 where that is refused."""
        return run_with_inbox(arguments, self.marking.name, lambda inbox: _record(inbox, self.marking, arguments))


async def _record(inbox: PersonalInbox, marking: MarkingVerb, arguments: argparse.Namespace) -> Told:
    who = await inbox.who()
    words = marking.words(arguments)
    with hinting(who.verified):
        if "run" in words and "sign" in words:
            raise UserError("--sign is for a vote on an open request: omit --run")
        if "run" in words:  # no list has a request that was never asked about: it is named whole
            done = row = await inbox.withdraw(arguments.request, **words)
        else:
            row = await find_request(inbox, arguments.request)
            done = await _said(inbox, marking, row, words | {"digest": row.digest})
    about = f"{escape(row.tool, keep='')} of {quote(row.agent)}, request {row.id[:SHORT]}"
    said = marking.tell(row, done, who.id)
    return Told([f"{about}: {said}"], request_data(done))


async def _said(inbox: PersonalInbox, marking: MarkingVerb, row: RequestRow, words: Words) -> RequestRow:
    if marking.mark is not None:
        return await inbox.mark(row.id, marking.mark, **words)
    signing = words.pop("sign", None)
    if signing is not None:
        words["proof"] = await sign(inbox, row, "withdraw", cast("Details", words), signing)
    return await inbox.withdraw(row.id, **words)


def _describe_withdraw(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--note", metavar="TEXT", help="a note for the audit log")
    parser.add_argument("--run", metavar="RUN", help="the full id of its run, for a call that a grant approved")
    parser.add_argument(
        "--sign", metavar="KEYFILE", nargs="?", const="", help="sign the withdrawal of a signed vote with your ssh key"
    )


def _describe_claim(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lasts", default="15m", metavar="DURATION", help="for how long (default: %(default)s)")


def _describe_snooze(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lasts", required=True, metavar="DURATION", help="for how long: 2h, 3d")


def _nothing(_parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def _no_words(_arguments: argparse.Namespace) -> Words:
    return {}


def _withdrawing(arguments: argparse.Namespace) -> Words:
    given = {"note": arguments.note, "run": arguments.run, "sign": arguments.sign}
    return {name: value for name, value in given.items() if value is not None}


def _lasts(arguments: argparse.Namespace) -> Words:
    return {"lasts": arguments.lasts}


def _withdrawn(before: RequestRow, after: RequestRow, who: str) -> str:
    if before.state == after.state == "open" and own_vote(before.request, who) is not None:
        return f"{quote(who)} withdrew a vote; the request is pending. {still_needed(after.request)}"
    if after.state != "open":
        return f"{quote(who)} withdrew the approval, and it is {STATES.get(after.state, after.state)}"
    word = "is in doubt" if after.kind == "in_doubt" else "is pending again"
    return f"{quote(who)} withdrew the approval, and it {word}, with another digest: {after.digest[:DIGEST]}"


def _claimed(before: RequestRow, after: RequestRow, _who: str) -> str:
    mark, other = after.request.claim, before.request.claim
    if mark is None:  # it was released, or settled, between the two
        return "not claimed"
    instead = f" instead of {quote(other.by)}" if other is not None and other.by != mark.by else ""
    return f"claimed by {quote(mark.by)}{instead} until {here(mark.until)}"


def _released(_before: RequestRow, _after: RequestRow, _who: str) -> str:
    return "released"


def _snoozed(_before: RequestRow, after: RequestRow, who: str) -> str:
    mark: Mark | None = next((mark for mark in after.request.snoozed if mark.by == who), None)
    ends = "" if mark is None else f" until {here(mark.until)}"
    return f"snoozed for {quote(who)} only{ends}: requests --mine hides it"


def _unsnoozed(_before: RequestRow, _after: RequestRow, who: str) -> str:
    return f"unsnoozed: requests --mine lists it again for {quote(who)}"


_ROWS = (
    MarkingVerb("claim", "take", _describe_claim, _lasts, _claimed),
    MarkingVerb("release", "let_go", _nothing, _no_words, _released),
    MarkingVerb("snooze", "snooze", _describe_snooze, _lasts, _snoozed),
    MarkingVerb("unsnooze", "wake", _nothing, _no_words, _unsnoozed),
    MarkingVerb("withdraw", None, _describe_withdraw, _withdrawing, _withdrawn),
)

#: The command of each word, by its name.
MARKING: dict[str, MarkingCommand] = {row.name: MarkingCommand(row) for row in _ROWS}
