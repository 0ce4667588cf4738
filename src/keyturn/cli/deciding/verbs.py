"""The commands that decide: one table of verbs, each a method of the inbox with what goes along.

`keyturn approve REQUEST` and its kin name what was shown to the person, by a digest or a revision; where they do not,
they show the request and ask. A new verb is a row of the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from ...core.errors import BadJson, UserError
from ...core.strict import parse
from ...inbox.personal import Verdict
from ...policies.grants import Grant
from ..finding import SHORTEST
from ..seats.sitting import run_with_inbox
from ..with_journal import describe_app, describe_journal
from .decide import decide
from .verb import Verb, Words


class DecidingCommand(NamedTuple):
    """Makes a command of a verb, as `keyturn.cli.main` takes one."""

    verb: Verb

    def describe(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of this command."""
        parser.add_argument(
            "request", metavar="REQUEST", help=f"its id, or the first characters of it, {SHORTEST} or more"
        )
        self.verb.describe(parser)
        parser.add_argument("--note", metavar="TEXT", help="a note for the record")
        shown = parser.add_mutually_exclusive_group()
        shown.add_argument("--digest", metavar="HEX", help="what was shown, as `keyturn show` says it")
        shown.add_argument("--revision", type=int, metavar="N", help="the same, by how often it was asked")
        if self.verb.signs:
            parser.add_argument(
                "--sign",
                nargs="?",
                const="",
                metavar="KEYFILE",
                help="sign it with your own ssh key (default: the one in ~/.ssh that you enrolled)",
            )
        describe_journal(parser, people=True, server=True)

    def run(self, arguments: argparse.Namespace) -> int:
        """Decide; return 1 where that is refused, 3 where the person said no."""
        return run_with_inbox(arguments, self.verb.name, lambda inbox: decide(inbox, self.verb, arguments))


def _no_words(_arguments: argparse.Namespace) -> Words:
    return {}


def _describe_approve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--break-glass", action="store_true", help="approve it alone in an emergency, where its terms let you; --note"
    )
    _describe_alike(parser)


def _describe_alike(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--alike", action="store_true", help="all that wait for the same tool with the same arguments, of every run"
    )


def _approved(arguments: argparse.Namespace) -> Words:
    return {"break_glass": True} if arguments.break_glass else {}


def _describe_ask_back(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", metavar="QUESTION", help="what its model answers before it may propose it again")


def _asked_back(arguments: argparse.Namespace) -> Words:
    return {"message": arguments.question}


def _describe_reject(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--message", metavar="TEXT", help="what the model is told")
    parser.add_argument("--always", action="store_true", help="reject later calls of the tool in this run, too")
    _describe_alike(parser)


def _describe_answer(parser: argparse.ArgumentParser) -> None:
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("answer", nargs="?", metavar="TEXT", help="the answer, or the number of a choice")
    given.add_argument("--data", metavar="JSON", help="the answer as JSON")


def _describe_edit(parser: argparse.ArgumentParser) -> None:
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        "--set", action="append", metavar="NAME=VALUE", help="another value of an argument; may be given several times"
    )
    given.add_argument("--args", metavar="JSON", help="all arguments (default: change them in $EDITOR)")
    parser.add_argument("--yes", action="store_true", help="do not ask once the difference was shown")
    describe_app(parser, "its tool checks the edit")


def _describe_resolve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("outcome", choices=("ran", "did_not_run", "retry"), help="what became of it")
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--output", metavar="TEXT", help="the result of a call that ran")
    given.add_argument("--data", metavar="JSON", help="the same as JSON")


def _describe_review(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("outcome", choices=("right", "wrong"), help="whether it was right to let it run")


def _describe_grant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--where", metavar="JSON", help='for arguments like these: {"amount": {"le": 50}}')
    parser.add_argument("--uses", type=int, metavar="N", help="for so many later calls")
    parser.add_argument("--expires", metavar="DURATION", help="for so long: 2h, 7d")
    parser.add_argument(
        "--scope",
        choices=("run", "session", "requester", "agent"),
        default="run",
        help="for calls of this run, its session, its requester, or all of this agent (default: %(default)s)",
    )


def _grant(arguments: argparse.Namespace) -> Words:
    where = _json("--where", arguments.where)
    return {"grant": Grant(where, arguments.expires, arguments.uses, arguments.scope)}


def _json(option: str, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return parse(text)
    except BadJson as error:
        raise UserError(f"{option} is JSON: {error}") from None


def _answer(arguments: argparse.Namespace) -> Words:
    # The text of a question with choices is read once the request is at hand.
    typed = {} if arguments.answer is None else {"typed": arguments.answer}
    return typed or {"output": _json("--data", arguments.data)}


def _resolved(arguments: argparse.Namespace) -> Words:
    given = arguments.output if arguments.data is None else _json("--data", arguments.data)
    return {"output": given}


def _outcome(arguments: argparse.Namespace) -> Verdict:
    return arguments.outcome


def _rejected(arguments: argparse.Namespace) -> Words:
    return {"message": arguments.message, "always": arguments.always}


def _always(verdict: Verdict) -> Callable[[argparse.Namespace], Verdict]:
    return lambda _arguments: verdict


_ROWS = (
    Verb("approve", "approved", _describe_approve, _approved, _always("approve")),
    Verb("reject", "rejected", _describe_reject, _rejected, _always("reject")),
    Verb("ask-back", "asked back", _describe_ask_back, _asked_back, _always("ask_back")),
    Verb("answer", "answered", _describe_answer, _answer, _always("answer")),
    Verb("edit", "approved as you changed it", _describe_edit, _no_words, _always("edit")),
    Verb("resolve", "resolved", _describe_resolve, _resolved, _outcome),
    Verb("review", "reviewed", _describe_review, _no_words, _outcome, signs=False),
    Verb("grant", "approved, with a grant", _describe_grant, _grant, _always("approve"), signs=False),
)

#: The command of each verb, by its name.
DECIDING: dict[str, DecidingCommand] = {row.name: DecidingCommand(row) for row in _ROWS}
