"""What the commands share that stand between two programs: where they ask, and how the program behind is started."""

from __future__ import annotations

import argparse
import os

from .with_journal import TOKEN


def describe_asking(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which server is asked, and by which account."""
    parser.add_argument("--server", metavar="URL", help="the Keyturn server (default: KEYTURN_SERVER)")
    parser.add_argument("--token-file", metavar="FILE", help="a token with the scope 'ask' (default: KEYTURN_TOKEN)")


def command_of(arguments: argparse.Namespace) -> list[str]:
    """Return the command of the program behind, without the -- before it.

    >>> command_of(argparse.Namespace(command=["--", "npx", "--", "server"]))
    ['npx', '--', 'server']
    """
    return [word for number, word in enumerate(arguments.command) if number or word != "--"]


def environment_behind() -> dict[str, str]:
    """Return the environment of the program behind: without the token, by which it could claim what was approved."""
    return {name: value for name, value in os.environ.items() if name != TOKEN}
