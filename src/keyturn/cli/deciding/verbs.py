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
            "request", metavar="REQUEST", help=f"the request id, or its first {SHORTEST} or more characters"
        )
        self.verb.describe(parser)
        parser.add_argument("--note", metavar="TEXT", help="a note for the audit log")
        shown = parser.add_mutually_exclusive_group()
        shown.add_argument("--digest", metavar="HEX", help="the digest of what you were shown, from `keyturn show`")
        shown.add_argument("--revision", type=int, metavar="N", help="the same, by the revision of the request")
        if self.verb.signs:
            parser.add_argument(
                "--sign",
                nargs="?",
                const="",
                metavar="KEYFILE",
                help="sign the decision with your own ssh key (default: the enrolled key in ~/.ssh)",
            )
        describe_journal(parser, people=True, server=True)

    def run(self, arguments: argparse.Namespace) -> int:
        """Decide; return 1 where that is refused, 3 where the person said no."""
        return run_with_inbox(arguments, self.verb.name, lambda inbox: decide(inbox, self.verb, arguments))


def _no_words(_arguments: argparse.Namespace) -> Words:
    return {}


def _describe_approve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--break-glass",
        action="store_true",
        help="emergency override: approve it alone, if its terms allow it (--note)",
    )
    _describe_alike(parser)


def _describe_alike(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--alike", action="store_true", help="every pending request for the same tool and arguments, of all runs"
    )


def _approved(arguments: argparse.Namespace) -> Words:
    return {"break_glass": True} if arguments.break_glass else {}


def _describe_ask_back(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", metavar="QUESTION", help="the question to the agent")


def _asked_back(arguments: argparse.Namespace) -> Words:
    return {"message": arguments.question}


def _describe_reject(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--message", metavar="TEXT", help="a message to the model")
    parser.add_argument("--always", action="store_true", help="also reject future calls of the tool in this run")
    _describe_alike(parser)


def _describe_answer(parser: argparse.ArgumentParser) -> None:
    given = parser.add_mutually_exclusive_group()
    about = "the answer, or the number of a choice (default: typed in an interactive terminal)"
    given.add_argument("answer", nargs="?", metavar="TEXT", help=about)
    given.add_argument("--data", metavar="JSON", help="the answer as JSON")


def _describe_edit(parser: argparse.ArgumentParser) -> None:
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        "--set", action="append", metavar="NAME=VALUE", help="another value of an argument; may be given several times"
    )
    given.add_argument("--args", metavar="JSON", help="all arguments (default: edit them in $EDITOR)")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation after the difference is shown")
    describe_app(parser, "its tool validates the edit")


def _describe_resolve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("outcome", choices=("ran", "did_not_run", "retry"), help="whether the call ran")
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--output", metavar="TEXT", help="the result of a call that ran")
    given.add_argument("--data", metavar="JSON", help="the same as JSON")


def _describe_review(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("outcome", choices=("right", "wrong"), help="whether the call should have run")


def _describe_grant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--where", metavar="JSON", help='limit it to these arguments: {"amount": {"le": 50}}')
    parser.add_argument("--uses", type=int, metavar="N", help="limit it to N future calls")
    parser.add_argument("--expires", metavar="DURATION", help="limit it to a duration: 2h, 7d")
    parser.add_argument(
        "--scope",
        choices=("run", "session", "requester", "agent"),
        default="run",
        help="cover calls of this run, its session, its requester, or this agent (default: %(default)s)",
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
        raise UserError(f"{option} must be JSON: {error}") from None


def _answer(arguments: argparse.Namespace) -> Words:
    # The text of a question with choices is read once the request is at hand.
    return {"typed": arguments.answer} if arguments.data is None else {"output": _json("--data", arguments.data)}


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
    Verb("ask", "asked", _describe_ask_back, _asked_back, _always("ask_back")),
    Verb("answer", "answered", _describe_answer, _answer, _always("answer")),
    Verb("edit", "approved with your edit", _describe_edit, _no_words, _always("edit")),
    Verb("resolve", "resolved", _describe_resolve, _resolved, _outcome),
    Verb("review", "reviewed", _describe_review, _no_words, _outcome, signs=False),
    Verb("grant", "approved, with a grant", _describe_grant, _grant, _always("approve"), signs=False),
)

#: The command of each verb, by its name.
DECIDING: dict[str, DecidingCommand] = {row.name: DecidingCommand(row) for row in _ROWS}
