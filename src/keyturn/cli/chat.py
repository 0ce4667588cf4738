"""The command `keyturn chat` opens the terminal assistant: a model, a folder, a journal, an earlier conversation.

The screen needs Textual, which is imported only here and only when it is there.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from ..chat import scripted
from ..chat.archive import Talk, talk_of, talks_in
from ..chat.assistant import Workplace, assistant_agent, place_of
from ..chat.conversation import Assistant
from ..core.errors import KeyturnError, UserError
from ..core.usage import Price, Prices
from ..journal import open_journal
from ..journal.base import Store
from ..models.prices import known_prices
from ..models.routing import split_name
from ..screens.drawing import Row, labelled, ours
from ..sessions.base import Session
from ..sessions.sqlite import SQLiteSession
from ..support.keys import make_directory, state_directory
from ..support.lazy import is_installed
from .demo_player import Player
from .printing import command, print_labelled

_NEWEST = ""
_FILE = "sqlite:///"


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", metavar="NAME", help="the model, such as anthropic:claude-sonnet-5")
    which.add_argument("--scripted", action="store_true", help="the scripted model, whatever keys are set")
    parser.add_argument("--root", metavar="DIR", type=Path, default=Path(), help="the folder to work on (default: .)")
    parser.add_argument("--journal", metavar="URL", help="where runs are kept: a file, or the URL of a journal")
    parser.add_argument(
        "--resume",
        metavar="RUN",
        nargs="?",
        const=_NEWEST,
        help="continue the conversation of this run, by its id or the start of it (default: the newest)",
    )
    parser.add_argument(
        "--price", metavar="IN/OUT", help="the price of a million tokens, in and out, to show costs: 1.25/10"
    )


def run(arguments: argparse.Namespace) -> int:
    """Open the assistant; return the exit code."""
    try:
        if not is_installed("textual"):
            raise UserError(
                "the screen needs the package 'textual', which is not installed: pip install 'keyturn[chat]'"
            )
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UserError("this is not a terminal; for programs, see App and Runner")
        if not arguments.root.is_dir():
            raise UserError(f"there is no folder {str(arguments.root)!r}: give one that exists with --root")
        player = Player.chosen(arguments.model, scripted=arguments.scripted, program="chat", script=scripted.reply)
        left = asyncio.run(_chat(arguments, player, player.model()))
    except KeyturnError as error:
        print_labelled("keyturn chat", str(error))
        return 1
    if left:
        print("The run stays in its journal. To continue:")
        print(f"  {command()} chat {_flags(arguments)}--resume {left[:12]}")
    return 0


def _flags(arguments: argparse.Namespace) -> str:
    """Return the flags by which another process finds the same run."""
    given = {"--journal": arguments.journal, "--root": arguments.root if arguments.root != Path() else None}
    return "".join(f"{flag} {shlex.quote(str(value))} " for flag, value in given.items() if value is not None)


async def _chat(arguments: argparse.Namespace, player: Player, model: object) -> str:
    """Open the journal and the screen; return the run that can be gone on with."""
    from ..chat.screen import ChatApp

    url = journal_url(arguments.journal)
    store: Any = open_journal(url)
    try:
        place = await place_of(arguments.root.resolve())
        assistant = Assistant(
            assistant_agent(model, place.backend),
            store,
            sessions_of(url),
            _person(),
            _prices(arguments.price, player.name),
            player.trouble,
        )
        talk = await _talk(store, arguments.resume)
        app = ChatApp(assistant, _about(player, place, url), talk)
        return await app.run_async() or ""
    finally:
        if hasattr(store, "close"):
            await store.close()


def journal_url(given: str | None) -> str:
    """Return the URL of the journal: a file of this user's unless one is named.

    >>> journal_url("/tmp/runs.db")
    'sqlite:////tmp/runs.db'
    """
    if given is not None and "://" in given:
        return given
    path = state_directory() / "chat.db" if given is None else Path(given).absolute()
    make_directory(path.parent)
    return _FILE + quote(str(path))


def sessions_of(url: str) -> Callable[[str], Session]:
    """Return what makes the session of a conversation: in a file beside the journal's, or this user's."""
    if url.startswith("memory:"):
        return SQLiteSession
    beside = url.startswith(_FILE)
    path = Path(unquote(url.removeprefix(_FILE)) + ".sessions") if beside else state_directory() / "chat.sessions"
    make_directory(path.parent)
    return lambda talk: SQLiteSession(talk, path)


async def _talk(store: Store, wanted: str | None) -> Talk | None:
    if wanted is None:
        return None
    if wanted:
        return await talk_of(store, wanted)
    talks = await talks_in(store)
    if not talks:
        raise UserError("there is no earlier conversation in this journal: omit --resume")
    return talks[0]


def _prices(given: str | None, model: str) -> Prices:
    if given is None:
        found = known_prices(model) if is_installed("genai_prices") else {}
        return found | {split_name(name)[1]: price for name, price in found.items()}
    before, slash, after = given.partition("/")
    if not slash:
        raise UserError(f"--price is two amounts for a million tokens, in and out, such as 1.25/10; not {given!r}")
    return {model: Price(before, after), model.partition(":")[2]: Price(before, after)}


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "you"


def _about(player: Player, place: Workplace, url: str) -> Callable[[int], Iterator[Row]]:
    """Return what draws the first rows: which model, which folder, whether it can run commands, and which journal."""

    def rows(width: int) -> Iterator[Row]:
        yield from labelled("title", "model", player.sentence(), width)
        yield from labelled("title", "folder", place.backend.root, width)
        if place.no_commands:
            yield from labelled("note", "no commands", place.no_commands, width)
        else:
            yield from ours(
                "quiet", "Commands run in a sandbox. Commands and changes of files require your approval.", width
            )
        yield from labelled("title", "journal", _named(url), width)

    return rows


def _named(url: str) -> str:
    """Return the name of a journal without what may be secret in it."""
    return unquote(url.removeprefix(_FILE)) if url.startswith(_FILE) else url.partition(":")[0]
