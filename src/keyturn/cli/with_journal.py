"""What the commands that work on a journal share: its options, how it is opened, and how answers are printed.

An error of ours is one line on stderr and the exit code 1; what could not even be tried is argparse's, 2.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from ..core.errors import KeyturnError, UserError
from ..journal import open_journal
from .printing import must_be_there, print_labelled, print_row

JOURNAL = "KEYTURN_JOURNAL"
PERSON = "KEYTURN_AS"
_NEAR = "keyturn.db"


class Told(NamedTuple):
    """Holds what a command says: rows for people, and data for programs."""

    rows: Iterable[str]
    data: Any


def describe_journal(parser: argparse.ArgumentParser, *, people: bool = False) -> None:
    """Add the options that say which journal, whose part of it, as whom, and how the answer is printed."""
    parser.add_argument(
        "--journal", metavar="URL", help=f"the journal (default: {JOURNAL}, else ./{_NEAR} if it is there)"
    )
    parser.add_argument("--tenant", default="default", metavar="NAME", help="whose part of it (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print data for programs, one JSON value")
    if people:
        parser.add_argument(
            "--as", dest="by", metavar="PERSON", help=f"who does it (default: {PERSON}, else your login name)"
        )


def url_of(arguments: argparse.Namespace) -> str:
    """Return the URL of the journal that is meant, or raise `UserError`."""
    given = arguments.journal or os.environ.get(JOURNAL)
    if given:
        return str(given)
    if Path(_NEAR).is_file():
        return f"sqlite:///{_NEAR}"
    raise UserError(f"say which journal: --journal sqlite:///runs.db, or set {JOURNAL}")


def by_of(arguments: argparse.Namespace) -> str:
    """Return the id of the person who does it."""
    given = arguments.by or os.environ.get(PERSON)
    try:
        return str(given or getpass.getuser())
    except (KeyError, OSError):
        raise UserError(f"say who does it: --as PERSON, or set {PERSON}") from None


def run_with_journal(
    arguments: argparse.Namespace, name: str, work: Callable[[Any], Awaitable[Told]], *, new: bool = False
) -> int:
    """Open the journal, do the work and print what it says; return 1 where that cannot be done."""
    try:
        url = url_of(arguments)
        if not new:
            must_be_there(url)
        told = asyncio.run(_worked(url, arguments.tenant, work))
    except KeyturnError as error:
        print_labelled("keyturn", f"{name}: {error}")
        return 1
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(told.data, enc_hook=_plain), indent=2).decode())
    else:
        for row in told.rows:
            print_row(row, sys.stdout)
    return 0


async def _worked(url: str, tenant: str, work: Callable[[Any], Awaitable[Told]]) -> Told:
    whole: Any = open_journal(url)
    try:
        return await work(whole.of(tenant))
    finally:
        if hasattr(whole, "close"):
            await whole.close()


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(cast("set[str]", value))
    raise NotImplementedError
