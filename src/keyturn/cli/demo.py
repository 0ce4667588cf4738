"""The command `keyturn demo` serves an office whose agents wait for people, or has its calls decided in the terminal.

What there is to decide is the same, and is in `office/`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..core.errors import KeyturnError, UserError
from .demo_player import Player
from .printing import command, print_labelled


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--terminal", action="store_true", help="no server: decide in this terminal")
    parser.add_argument(
        "--once", action="store_true", help="decide automatically, show the results, and exit (DEMO_ONCE=1)"
    )
    parser.add_argument("--dir", metavar="DIR", type=Path, help="keep the demo's files in this directory")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", metavar="NAME", help="use this model, such as anthropic:claude-sonnet-5")
    which.add_argument("--scripted", action="store_true", help="use the scripted model, even if API keys are set")


def run(arguments: argparse.Namespace) -> int:
    """Play the demo; return the exit code."""
    asked = arguments.once or bool(os.environ.get("DEMO_ONCE"))
    once = asked or not sys.stdin.isatty()
    if once and not asked:
        print_labelled(
            "keyturn demo", "standard input is not a terminal, so the demo decides by itself and ends (--once)"
        )
    try:
        if once and arguments.model:
            raise UserError("calls of a provider's model require decisions in a terminal: omit --model")
        player = Player.chosen(arguments.model, scripted=arguments.scripted or once)
        if arguments.terminal:
            return _in_the_terminal(arguments.dir, player, once=once)
        return _served(arguments.dir, player, once=once)
    except KeyturnError as error:
        print_labelled("keyturn demo", str(error))
        return 1


def _in_the_terminal(directory: Path | None, player: Player, *, once: bool) -> int:
    try:
        from .office.in_terminal import play
    except ImportError as error:
        raise UserError(
            f"the inbox in the terminal needs the package {error.name!r}, which is not installed: "
            "pip install 'keyturn[chat]'"
        ) from None
    return play(directory, player, once=once)


def _served(directory: Path | None, player: Player, *, once: bool) -> int:
    try:
        from .office.serving import play
    except ImportError as error:
        raise UserError(
            f"the demo serves pages, which need packages of their own ({error.name}): pip install 'keyturn[server]', "
            f"or decide in the terminal: {command()} demo --terminal"
        ) from None
    return play(directory, player, once=once)
