"""What the commands that work on a journal share: its options, how it is opened, who acts, and how answers are printed.

An error of ours is one line on stderr and the exit code 1; what could not even be tried is argparse's, 2.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, cast

import msgspec

from ..core.errors import KeyturnError, NotAllowed, UserError
from ..journal import open_journal
from ..render.escape import Escaped
from .printing import must_be_there, print_labelled, print_row
from .remembered import RememberedJournal, recalled, recalled_at

JOURNAL = "KEYTURN_JOURNAL"
PERSON = "KEYTURN_AS"
TOKEN = "KEYTURN_TOKEN"
SERVER = "KEYTURN_SERVER"
_NEAR = "keyturn.db"
#: Whose part of a journal is meant where nobody says.
TENANT = "default"


class Told(NamedTuple):
    """Holds what a command says: rows for people, data for programs, and its exit code.

    `drawn` says that the rows are as wide as the terminal already, and may have colours. `note` goes to stderr, so that
    the rows can be redirected to a file.
    """

    rows: Iterable[str]
    data: Any
    code: int = 0
    drawn: bool = False
    note: Escaped | LiteralString = ""


Work = Callable[[Any], Awaitable[Told | int]]


def describe_journal(parser: argparse.ArgumentParser, *, people: bool = False, server: bool = False) -> None:
    """Add the options that say which journal, whose part of it, as whom, and how the answer is printed."""
    describe_journal_url(parser)
    parser.add_argument("--tenant", default=TENANT, metavar="NAME", help="the tenant (default: %(default)s)")
    describe_json(parser)
    if people:
        parser.add_argument(
            "--as",
            dest="by",
            metavar="USER",
            help=f"the user, unverified (default: {PERSON}, else your login name)",
        )
    if server:
        describe_server(parser, "a journal")
    elif people:
        _describe_token(parser)


def describe_journal_url(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which journal."""
    parser.add_argument(
        "--journal",
        metavar="URL",
        help=f"the journal (default: {JOURNAL}, else the one that keyturn init made here, else ./{_NEAR})",
    )


def describe_server(parser: argparse.ArgumentParser, instead: LiteralString) -> None:
    """Add the options that say which server, and who comes to it."""
    parser.add_argument("--server", metavar="URL", help=f"a server instead of {instead} (default: {SERVER})")
    parser.add_argument("--plain-http", action="store_true", help="send the token to another machine without TLS")
    _describe_token(parser)


def _describe_token(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--token-file", metavar="FILE", help=f"sign in with the token in this file (default: {TOKEN} if it is set)"
    )


def describe_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how the answer is printed."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def describe_app(parser: argparse.ArgumentParser, why: str, *, required: bool = False) -> None:
    """Add the option that names an app."""
    said = f"the app: {why}"
    parser.add_argument("--app", metavar="MODULE:NAME", default=None, required=required, help=said)


def describe_url(parser: argparse.ArgumentParser) -> None:
    """Add the journal as a word of its own, beside `--journal`."""
    parser.add_argument("url", metavar="URL", nargs="?", help="the journal, as --journal names it")


def url_of(arguments: argparse.Namespace, *, new: bool = False) -> str:
    """Return the URL of the journal that is meant, or raise `UserError`; with `new`, of one that is made here."""
    word = getattr(arguments, "url", None)
    if word is not None and arguments.journal not in (None, word):
        raise UserError("two journals are named: omit the argument, or --journal")
    return journal_of(word or arguments.journal, new=new, recall=not new)


def journal_of(given: str | None, *, new: bool = False, recall: bool = True) -> str:
    """Return the URL of the journal that is given, else of the environment, of `keyturn init` or of this directory."""
    given = given or os.environ.get(JOURNAL)
    if given:
        return str(given)
    if recall and (known := recalled()) is not None:
        return known.journal
    if new or Path(_NEAR).is_file():
        return f"sqlite:///{_NEAR}"
    raise UserError(f"no journal was named: pass --journal sqlite:///runs.db, or set {JOURNAL}")


def by_of(arguments: argparse.Namespace) -> str:
    """Return the id of the person who does it."""
    given = getattr(arguments, "by", None) or os.environ.get(PERSON)
    if not given and (known := remembered_of(arguments)) is not None:
        return known.person
    try:
        return str(given or getpass.getuser())
    except (KeyError, OSError):
        raise UserError(f"no user was named: pass --as USER, or set {PERSON}") from None


def remembered_of(arguments: argparse.Namespace) -> RememberedJournal | None:
    """Return what `keyturn init` noted of the journal that is meant, where it was made from this directory."""
    if getattr(arguments, "tenant", TENANT) != TENANT:
        return None
    if getattr(arguments, "app", None) is not None and getattr(arguments, "journal", None) is None:
        return recalled()  # its journal may be another one, where the token is unknown
    try:
        return recalled_at(url_of(arguments))
    except (AttributeError, UserError):  # a command without a journal
        return None


@contextmanager
def hinting(known: bool, more: LiteralString = "") -> Generator[None]:
    """Add to a refusal of somebody who only gave a name how they say who they are."""
    try:
        yield
    except NotAllowed as error:
        if known:
            raise
        raise NotAllowed(f"{error}; sign in with {TOKEN} or --token-file{more}") from None


def token_of(arguments: argparse.Namespace) -> str | None:
    """Return the token that is given, or None where there is none."""
    if arguments.token_file is None:
        return os.environ.get(TOKEN) or None
    try:
        token = Path(arguments.token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the token cannot be read from {arguments.token_file!r}: {type(error).__name__}") from None
    if len(token.split()) > 1:
        raise UserError(f"{arguments.token_file!r} holds more than a token: it must be one line, kt_...")
    return token


def run_with_journal(arguments: argparse.Namespace, name: LiteralString, work: Work, *, new: bool = False) -> int:
    """Open the journal, do the work and print what it says; return 1 where that cannot be done."""
    return run_command(arguments, name, lambda: with_store(arguments, work, new=new))


def run_command(arguments: argparse.Namespace, name: LiteralString, begun: Callable[[], Awaitable[Told | int]]) -> int:
    """Do the work and print what it says; return 1 where that cannot be done."""

    async def all_of_it() -> Told | int:
        return await begun()

    try:
        told = asyncio.run(all_of_it())
    except KeyturnError as error:
        print_labelled(f"keyturn {name}", str(error))
        return 1
    if isinstance(told, int):
        return told
    if arguments.json:
        print_json(told.data, indent=2)
    elif told.drawn:
        for row in told.rows:
            print(row)
    else:
        for row in told.rows:
            print_row(row, sys.stdout)
    if told.note and not arguments.json:
        sys.stdout.flush()
        print_row(told.note, sys.stderr)
    return told.code


def print_json(data: object, indent: int | None = None) -> None:
    """Print data as JSON in plain ASCII: a terminal may read it, and nothing in it may act there."""
    print(json.dumps(msgspec.to_builtins(data, enc_hook=_plain), indent=indent))


async def with_store(arguments: argparse.Namespace, work: Callable[[Any], Awaitable[Any]], *, new: bool = False) -> Any:
    """Open the journal of a command, made where `new` says so, do the work with the tenant's store, and close it."""
    url = url_of(arguments, new=new)
    if not new:
        must_be_there(url)
    whole: Any = open_journal(url)
    try:
        return await work(whole.of(arguments.tenant))
    finally:
        await close(whole)


async def close(whole: Any) -> None:
    """Close a journal that can be closed."""
    if hasattr(whole, "close"):
        await whole.close()


def _plain(value: object) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(cast("set[str]", value))
    raise NotImplementedError
